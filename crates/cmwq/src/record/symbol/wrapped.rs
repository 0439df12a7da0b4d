//! The names of closures that libraries put around those of their users.
//!
//! A library that wraps a closure of its user's in one of its own, and leaves it to the user where
//! that is queued, makes it in a function called `cmwq_wraps`, whose first type parameter is the
//! user's: the name of the wrapper has the user's in it, and that is what it goes by.

/// The name of a type; of a wrapper, that of what is wrapped.
pub(crate) fn name_of_type<N>() -> &'static str {
    innermost(std::any::type_name::<N>())
}

fn innermost(mut name: &str) -> &str {
    while let Some(inner) = inner(name) {
        name = inner;
    }
    name
}

/// What `….cmwq_wraps<INNER, …>::{{closure}}` has inside.
fn inner(name: &str) -> Option<&str> {
    let parameters = name.strip_suffix(">::{{closure}}")?;
    let (path, parameters) = parameters.split_once('<')?;
    if !path.ends_with("::cmwq_wraps") {
        return None;
    }
    let mut depth = 0_i32;
    let end = parameters.char_indices().find(|(at, letter)| {
        // Of an arrow it is no bracket.
        let is_arrow = *letter == '>' && parameters[..*at].ends_with('-');
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' if !is_arrow => depth -= 1,
            _ => {}
        }
        *letter == ',' && depth == 0
    });
    Some(end.map_or(parameters, |(at, _)| &parameters[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cmwq_wraps<F: FnOnce() -> T, T>(func: F, times: u32) -> impl FnOnce() -> Vec<T> {
        move || (times > 0).then(func).into_iter().collect()
    }

    fn name_of<N>(_: &N) -> &'static str {
        name_of_type::<N>()
    }

    fn written() -> [(u8, u8); 2] {
        [(1, 2); 2]
    }

    #[test]
    fn wrappers_go_by_what_they_wrap() {
        let plain = || 1;
        let name = name_of(&plain);
        assert!(name.ends_with("wrappers_go_by_what_they_wrap::{{closure}}"), "{name}");
        assert_eq!(name_of(&cmwq_wraps(plain, 1)), name);
        assert_eq!(name_of(&cmwq_wraps(cmwq_wraps(plain, 1), 1)), name);
        assert_eq!(name_of(&cmwq_wraps(written, 1)), name_of(&written));
        assert_eq!(name_of(&1), "i32");
    }

    #[test]
    fn what_is_wrapped_may_have_any_name() {
        let wrapped =
            |name: &str| format!("a::b::cmwq_wraps<{name}, (u8, [u8; 2])>::{{{{closure}}}}");
        for name in ["f", "f<a, b>", "f<a, fn(b, c) -> d<e>, g>::{{closure}}", "[(a, b); 2]"] {
            assert_eq!(innermost(&wrapped(name)), name);
            assert_eq!(innermost(&wrapped(&wrapped(name))), name);
        }
        assert_eq!(innermost("a::cmwq_wraps<f>"), "a::cmwq_wraps<f>");
        assert_eq!(innermost("a::wraps<f, b>::{{closure}}"), "a::wraps<f, b>::{{closure}}");
    }
}
