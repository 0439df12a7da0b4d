//! What a command becomes with its arguments: `{}` and its relatives, or arguments at its end.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::room::Size;

/// As long as a number may be.
const DIGITS: usize = 20;

/// What is put in place of a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `{}`: as it is.
    Whole,
    /// `{.}`: without its extension.
    Stem,
    /// `{/}`: without its directory.
    Name,
    /// `{//}`: its directory.
    Directory,
    /// `{/.}`: without directory and extension.
    NameStem,
    /// `{#}`: the number of the command.
    Number,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    /// `which`: of several arguments, counted from 0; `None`: all.
    Hole {
        which: Option<usize>,
        form: Form,
    },
}

/// The words of a command, with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    words: Vec<Vec<Piece>>,
    has_holes: bool,
}

impl Template {
    /// `replace`: what stands for an argument instead of the forms in braces.
    pub(super) fn new(command: &[OsString], replace: Option<&OsStr>) -> Self {
        let words: Vec<_> = command
            .iter()
            .map(|word| match replace {
                Some(replace) => split(word.as_bytes(), replace.as_bytes()),
                None => pieces(word.as_bytes()),
            })
            .collect();
        let has_holes = words.iter().any(|word| nr_holes(word) > 0);
        Self { words, has_holes }
    }

    /// Whether it says where arguments go.
    pub(super) fn has_holes(&self) -> bool {
        self.has_holes
    }

    /// Whether some arguments have places of their own, as `{2}`.
    pub(super) fn has_numbers(&self) -> bool {
        let is_one = |piece: &Piece| matches!(piece, Piece::Hole { which: Some(_), .. });
        self.words.iter().flatten().any(is_one)
    }

    /// How much it takes without arguments, at most.
    pub(super) fn bare_size(&self) -> Size {
        let mut size = Size::default();
        for word in self.words.iter().filter(|word| !is_list(word)) {
            let len = word.iter().map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::Hole { form: Form::Number, .. } => DIGITS,
                Piece::Hole { .. } => 0,
            });
            size.add(len.sum(), nr_holes(word) > 0);
        }
        size
    }

    /// How much more with this argument, at most.
    pub(super) fn size_of(&self, argument: &OsStr) -> Size {
        let mut size = Size::default();
        // The directory of nothing is a dot.
        let len = argument.len().max(1);
        if !self.has_holes {
            size.add(len, false);
        }
        for word in &self.words {
            match nr_holes(word) {
                0 => {}
                _ if is_list(word) => size.add(len, false),
                nr => size.grow(nr * (len + 1)),
            }
        }
        size
    }

    /// The `number`th command.
    pub(super) fn fill(&self, number: u64, arguments: &[OsString]) -> Vec<OsString> {
        let mut filled = Vec::with_capacity(self.words.len() + arguments.len());
        for word in &self.words {
            match word.as_slice() {
                [Piece::Hole { form, .. }] if is_list(word) => {
                    filled.extend(arguments.iter().map(|a| form.of(a.as_bytes(), number)).map(own));
                }
                pieces => filled.push(own(join(pieces, number, arguments))),
            }
        }
        if !self.has_holes {
            filled.extend_from_slice(arguments);
        }
        filled
    }
}

/// How many places for arguments a word has.
fn nr_holes(word: &[Piece]) -> usize {
    let is_one =
        |piece: &&Piece| matches!(piece, Piece::Hole { form, .. } if *form != Form::Number);
    word.iter().filter(is_one).count()
}

/// Whether several arguments stay several words in its place.
fn is_list(word: &[Piece]) -> bool {
    matches!(word, [Piece::Hole { which: None, form }] if *form != Form::Number)
}

fn own(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

fn join(pieces: &[Piece], number: u64, arguments: &[OsString]) -> Vec<u8> {
    let mut word = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => word.extend_from_slice(text),
            Piece::Hole { form: Form::Number, .. } => word.extend(number.to_string().bytes()),
            Piece::Hole { which: Some(which), form } => {
                let argument = arguments.get(*which).map_or(&b""[..], |a| a.as_bytes());
                word.extend(form.of(argument, number));
            }
            Piece::Hole { which: None, form } => {
                let all: Vec<_> = arguments.iter().map(|a| form.of(a.as_bytes(), number)).collect();
                word.extend(all.join(&b' '));
            }
        }
    }
    word
}

/// The word with `replace` as its only kind of hole.
fn split(word: &[u8], replace: &[u8]) -> Vec<Piece> {
    let hole = Piece::Hole { which: None, form: Form::Whole };
    let mut pieces = Vec::new();
    let mut rest = word;
    while !replace.is_empty()
        && let Some(at) = rest.windows(replace.len()).position(|window| window == replace)
    {
        push_text(&mut pieces, &rest[..at]);
        pieces.push(hole.clone());
        rest = &rest[at + replace.len()..];
    }
    push_text(&mut pieces, rest);
    pieces
}

fn push_text(pieces: &mut Vec<Piece>, text: &[u8]) {
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(text.to_vec()));
    }
}

fn pieces(word: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    let is_brace = |at: &usize| matches!(word[*at], b'{' | b'}');
    let mut braces = (0..word.len()).filter(is_brace).peekable();
    // What is between the braces of a hole is no brace.
    while let Some(at) = braces.next() {
        let Some(&end) = braces.peek() else { break };
        let is_pair = word[at] == b'{' && word[end] == b'}';
        let Some(hole) = is_pair.then(|| hole(&word[at + 1..end])).flatten() else { continue };
        if begin < at {
            pieces.push(Piece::Text(word[begin..at].to_vec()));
        }
        pieces.push(hole);
        braces.next();
        begin = end + 1;
    }
    push_text(&mut pieces, &word[begin..]);
    pieces
}

/// What is between the braces.
fn hole(inside: &[u8]) -> Option<Piece> {
    let digits = inside.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let which = match digits {
        0 => None,
        _ => {
            let number: usize = str::from_utf8(&inside[..digits]).ok()?.parse().ok()?;
            Some(number.checked_sub(1)?)
        }
    };
    let form = match &inside[digits..] {
        b"" => Form::Whole,
        b"." => Form::Stem,
        b"/" => Form::Name,
        b"//" => Form::Directory,
        b"/." => Form::NameStem,
        b"#" if which.is_none() => Form::Number,
        _ => return None,
    };
    Some(Piece::Hole { which, form })
}

impl Form {
    fn of(self, argument: &[u8], number: u64) -> Vec<u8> {
        let slash = argument.iter().rposition(|byte| *byte == b'/');
        let name = slash.map_or(0, |slash| slash + 1);
        // A dot at the beginning of a name is no extension.
        let dot = argument[name..].iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0);
        let stem = dot.map_or(argument.len(), |dot| name + dot);
        match self {
            Self::Whole => argument.to_vec(),
            Self::Stem => argument[..stem].to_vec(),
            Self::Name => argument[name..].to_vec(),
            Self::NameStem => argument[name..stem].to_vec(),
            Self::Directory => directory(argument).to_vec(),
            Self::Number => number.to_string().into_bytes(),
        }
    }
}

/// As dirname(1): slashes at the end are none, and several are one.
fn directory(argument: &[u8]) -> &[u8] {
    let without_slashes = |path: &[u8]| path.iter().rposition(|byte| *byte != b'/').map(|n| n + 1);
    let Some(end) = without_slashes(argument) else {
        return if argument.is_empty() { b"." } else { b"/" };
    };
    let Some(slash) = argument[..end].iter().rposition(|byte| *byte == b'/') else { return b"." };
    without_slashes(&argument[..slash]).map_or(b"/", |end| &argument[..end])
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// What a command takes is no more than was said before it was made.
    #[test]
    fn the_size_is_known_before() {
        let arguments = ["", "a", "b/c.d"].map(OsString::from);
        for words in [
            &["echo", "-n"][..],
            &["a", "{}", "{#}", "{}"],
            &["-{}={/}x", "{//}", "{#}{.}"],
            &["{1}", "{2}:{}"],
        ] {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            let template = Template::new(&words, None);
            let mut size = template.bare_size();
            for argument in &arguments {
                let more = template.size_of(argument);
                size = Size { all: size.all + more.all, joined: size.joined + more.joined };
            }
            let mut made = Size::default();
            let filled = template.fill(u64::MAX, &arguments);
            filled.iter().for_each(|word| made.add(word.len(), false));
            assert!(made.all <= size.all, "{words:?}: {made:?} {size:?}");
            let longest = filled.iter().map(|word| word.len()).max().unwrap_or(0);
            assert!(longest <= size.joined.max(DIGITS), "{words:?}: {longest} {size:?}");
        }
    }

    fn filled(command: &[&str], replace: Option<&str>, arguments: &[&str]) -> Vec<String> {
        let os = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let template = Template::new(&os(command), replace.map(OsStr::new));
        let words = template.fill(7, &os(arguments));
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn without_holes_arguments_go_to_the_end() {
        assert_eq!(filled(&["echo", "-n"], None, &["a b", "c"]), ["echo", "-n", "a b", "c"]);
        assert_eq!(filled(&["echo", "{#}"], None, &["a"]), ["echo", "7", "a"]);
    }

    #[test]
    fn parts_of_names() {
        let forms = ["{}", "{.}", "{/}", "{//}", "{/.}"];
        let parts = |name| filled(&forms, None, &[name]);
        assert_eq!(
            parts("a/b.c/d.tar.gz"),
            ["a/b.c/d.tar.gz", "a/b.c/d.tar", "d.tar.gz", "a/b.c", "d.tar"]
        );
        assert_eq!(parts("b.c/d"), ["b.c/d", "b.c/d", "d", "b.c", "d"]);
        assert_eq!(parts(".hidden"), [".hidden", ".hidden", ".hidden", ".", ".hidden"]);
        assert_eq!(parts("/x"), ["/x", "/x", "x", "/", "x"]);
        let directories =
            ["a/", "a//b", "//", "//a//", "a/b//", "", ".."].map(|n| parts(n)[3].clone());
        assert_eq!(directories, [".", "a", "/", "/", "a", ".", "."], "as dirname");
    }

    #[test]
    fn holes_within_words_and_several_arguments() {
        assert_eq!(filled(&["cp", "{}", "{.}.bak"], None, &["a.c"]), ["cp", "a.c", "a.bak"]);
        assert_eq!(filled(&["x", "{}", "<{}>"], None, &["a", "b"]), ["x", "a", "b", "<a b>"]);
        assert_eq!(filled(&["{2}-{1/}", "{3}"], None, &["p/a", "b"]), ["b-a", ""]);
        assert_eq!(
            filled(&["{0}", "{a}", "{", "}", "{}}"], None, &["x"]),
            ["{0}", "{a}", "{", "}", "x}"]
        );
    }

    /// Looked through once, it takes a moment; once for each byte, minutes.
    #[test]
    fn long_words_are_looked_through_once() {
        let begin = Instant::now();
        for text in ["x", "{", "{1"] {
            let long = text.repeat(1 << 19);
            assert!(filled(&[&long], None, &["y"]) == [&long, "y"]);
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }

    #[test]
    fn another_string_takes_the_place_of_all_forms() {
        assert_eq!(filled(&["X", "-X-X", "{}"], Some("X"), &["a b"]), ["a b", "-a b-a b", "{}"]);
    }
}
