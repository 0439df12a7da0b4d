//! Choices that people write by name.

/// Defines a choice of which each variant has a name, by which it is written and read.
macro_rules! named {
    (
        $(#[$about:meta])* pub enum $type:ident: $what:literal {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$about])*
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// All of them in their order, with their names.
            pub const ALL: [(Self, &'static str); [$($name),*].len()] =
                [$((Self::$variant, $name)),*];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(Self::ALL[*self as usize].1)
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::ParseError;

            fn from_str(name: &str) -> Result<Self, crate::ParseError> {
                let found = Self::ALL.iter().find(|(_, known)| *known == name);
                found.map(|(one, _)| *one).ok_or_else(|| {
                    crate::ParseError::unknown($what, name, Self::ALL.iter().map(|(_, name)| *name))
                })
            }
        }
    };
}

pub(crate) use named;
