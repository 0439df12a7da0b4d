//! What our headers declare, read from the compiler's preprocessed output: just enough of C's
//! grammar for headers that are written as ours are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{compiler, include_dir, scratch, succeed};

/// Everything that a program can name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Macros with what they stand for: `NAME` or `NAME(a, b)`.
    pub(crate) macros: BTreeMap<String, String>,
    pub(crate) enumerators: Vec<String>,
    /// `struct x` or a type's name, with the members.
    pub(crate) structs: BTreeMap<String, Vec<String>>,
    /// `enum x` and other types.
    pub(crate) types: BTreeSet<String>,
    /// Declarations of functions and variables by their names.
    pub(crate) declared: BTreeMap<String, String>,
}

pub(crate) const EVERYTHING: &str =
    "#include <cmwq.h>\n#include <linux/device.h>\n#include <linux/devm-helpers.h>\n";

impl Names {
    /// Of `cmwq.h` and all that it includes of ours, and the two headers that nothing includes;
    /// `None` without a compiler.
    pub(crate) fn of_headers() -> Option<Self> {
        let mut cc = compiler("cc")?;
        // More than one test asks, at the same time.
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let nr = ASKED.fetch_add(1, Ordering::Relaxed);
        let source = scratch(&format!("names_{nr}")).join("all.c");
        std::fs::write(&source, EVERYTHING).expect("a source");
        cc.args(["-std=gnu11", "-E", "-dD", "-I"]).arg(include_dir()).arg(&source);
        let output = String::from_utf8(succeed(&mut cc).stdout).expect("our headers are UTF-8");
        let mut names = Self::default();
        let text = names.take_macros(&output);
        for declaration in top_level(&text) {
            names.declare(&declaration);
        }
        Some(names)
    }

    /// Whether a program can name it.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_macro = |other: &String| other.split('(').next() == Some(name);
        self.declared.contains_key(name)
            || self.structs.contains_key(name)
            || self.types.contains(name)
            || self.enumerators.iter().any(|other| other == name)
            || self.macros.keys().any(is_macro)
            || self.structs.values().flatten().any(|member| member == name)
    }

    /// Keeps the lines that come from our headers, without the macros' definitions, which are
    /// noted.
    fn take_macros(&mut self, output: &str) -> String {
        let ours = include_dir().display().to_string();
        let (mut is_ours, mut text) = (false, String::new());
        for line in output.lines() {
            if let Some(marker) = line.strip_prefix("# ") {
                is_ours = marker.contains(&ours);
            } else if !is_ours {
            } else if let Some(definition) = line.strip_prefix("#define ") {
                let (name, value) = split_macro(definition);
                self.macros.insert(name.replace(' ', ""), squeeze(value));
            } else if !line.starts_with('#') {
                text += line;
                text.push('\n');
            }
        }
        let is_guard = |name: &str| name.starts_with("CMWQ_") && name.ends_with("_H");
        self.macros.retain(|name, _| !is_guard(name));
        text
    }

    fn declare(&mut self, text: &str) {
        let (head, body) = match (text.find('{'), text.rfind('}')) {
            (Some(open), Some(close)) => (text[..open].trim(), Some(&text[open + 1..close])),
            _ => (text.trim_end_matches(';').trim(), None),
        };
        let words: Vec<&str> = head.split_whitespace().collect();
        let is_typedef = words.first() == Some(&"typedef");
        match (words.as_slice(), body) {
            _ if words.is_empty() || head.starts_with("_Static_assert") => {}
            (["enum", tag @ ..], Some(body)) => {
                self.types.extend(tag.first().map(|tag| format!("enum {tag}")));
                let names = body.split(',').filter_map(|one| identifiers(one).next());
                self.enumerators.extend(names.map(str::to_owned));
            }
            (["struct", tag], Some(body)) => {
                self.structs.insert(format!("struct {tag}"), members(body));
            }
            (["typedef", "struct", ..], Some(body)) => {
                let name = identifiers(&text[text.rfind('}').unwrap_or_default()..]).last();
                self.structs.insert(name.unwrap_or_default().to_owned(), members(body));
            }
            _ if is_typedef => {
                self.types.insert(declarator(head));
            }
            (["struct", _], None) => {
                self.types.insert(head.to_owned());
            }
            _ => {
                let head = without_attributes(head);
                self.declared.insert(declarator(&head), squeeze(&head));
            }
        }
    }
}

/// `NAME(a, b) value` or `NAME value`.
fn split_macro(definition: &str) -> (&str, &str) {
    let end = definition.find(|c: char| c != '_' && !c.is_alphanumeric());
    match end {
        Some(open) if definition[open..].starts_with('(') => {
            let close = definition.find(')').expect("what opens closes");
            definition.split_at(close + 1)
        }
        Some(end) => definition.split_at(end),
        None => (definition, ""),
    }
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c != '_' && !c.is_alphanumeric());
    words.filter(|word| word.starts_with(|c: char| c == '_' || c.is_alphabetic()))
}

/// The declarations outside of all braces, each with its body if it has one.
fn top_level(text: &str) -> Vec<String> {
    let (mut found, mut depth, mut one) = (Vec::new(), 0_u32, String::new());
    let mut is_string = false;
    for c in text.chars() {
        one.push(c);
        is_string ^= c == '"';
        match c {
            _ if is_string => continue,
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        let is_body = c == '}' && one[..one.find('{').unwrap_or(0)].contains('(');
        if depth == 0 && (c == ';' || is_body) {
            found.push(one.trim().to_owned());
            one.clear();
        }
    }
    found
}

/// `__attribute__((…))` says how a function is called, not what it is.
fn without_attributes(text: &str) -> String {
    let mut rest = text.to_owned();
    while let Some(start) = rest.find("__attribute__") {
        let mut depth = 0;
        let end = rest[start..].find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ')' && depth == 0
        });
        let end = start + end.expect("what opens closes") + 1;
        rest.replace_range(start..end, "");
    }
    rest
}

/// The name that a declaration declares.
fn declarator(text: &str) -> String {
    let pointer = text.find("(*").map(|at| &text[at + 2..]);
    let name = match (pointer, text.find('(')) {
        // A pointer to a function, and no function with one as an argument.
        (Some(rest), Some(open)) if text[open..].starts_with("(*") => identifiers(rest).next(),
        (_, Some(open)) => identifiers(&text[..open]).last(),
        (_, None) => identifiers(text.split('[').next().unwrap_or_default()).last(),
    };
    name.unwrap_or_default().to_owned()
}

/// The names in a struct's body; those of an anonymous struct inside are not ours to name.
fn members(body: &str) -> Vec<String> {
    let mut names = Vec::new();
    for declaration in top_level(&format!("{body};")) {
        let text = declaration.trim_end_matches(';').trim();
        let text = text.rfind('}').map_or(text, |close| &text[close + 1..]);
        if text.contains("(*") {
            names.push(declarator(text));
            continue;
        }
        names.extend(text.split(',').map(declarator).filter(|name| !name.is_empty()));
    }
    names
}

/// What is read is what is meant: the headers' own kinds of declarations.
#[test]
fn declarations_are_read() {
    let mut names = Names::default();
    let text = "struct a { struct { void *x, *y; } in; unsigned long b[4], *c; void (*d)(int e); };
        typedef struct { long f; } g_t; enum h { I = 1, J };
        typedef void (*k_t)(struct a *l);
        __attribute__((format(printf, 1, 2))) static inline int m(const char *n, ...) { return 1; }
        long o(int p, long (*q)(void *), void *r);
        void u(void) __attribute__((warning(\"v; w\")));
        extern struct a *s; struct t; _Static_assert(sizeof(struct a) == 1, \"\");";
    for declaration in top_level(text) {
        names.declare(&declaration);
    }
    assert_eq!(names.structs["struct a"], ["in", "b", "c", "d"]);
    assert_eq!(names.structs["g_t"], ["f"]);
    assert_eq!(names.enumerators, ["I", "J"]);
    let types: Vec<_> = names.types.iter().map(String::as_str).collect();
    assert_eq!(types, ["enum h", "k_t", "struct t"]);
    assert_eq!(names.declared.keys().collect::<Vec<_>>(), ["m", "o", "s", "u"]);
    assert_eq!(names.declared["m"], "static inline int m(const char *n, ...)");
    assert_eq!(split_macro("F(a, b) a + b"), ("F(a, b)", " a + b"));
    assert_eq!(split_macro("G (1)"), ("G", " (1)"));
}
