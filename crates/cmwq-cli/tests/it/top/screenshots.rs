//! What a terminal shows, as a picture: those of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Screen;

/// Units from one cell to the next.
const CELL: (f32, f32) = (8.4, 17.0);
/// Between the text and the edge.
const EDGE: f32 = 10.0;
/// The page's colours, and the reader's choice of light or dark.
const STYLE: &str = "<style>\
    svg{background:#fff;color:#1f2328}\
    text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
    fill:#1f2328;white-space:pre}\
    .bar{fill:#1f2328}.on-bar{fill:#fff}.bold{font-weight:bold}.dim{opacity:.65}\
    @media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}\
    .bar{fill:#e6edf3}.on-bar{fill:#0d1117}}\
    </style>";

/// A run of cells of one row that look alike.
#[derive(Clone, Debug, Default, PartialEq)]
struct Run {
    column: u16,
    cells: u16,
    text: String,
    class: String,
    colour: String,
    is_bar: bool,
}

/// Of a colour in the cube of the terminal's palette, which is legible on light and dark.
fn colour(colour: vt100::Color) -> String {
    let vt100::Color::Idx(index @ 16..232) = colour else { return String::new() };
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    let place = index - 16;
    let [red, green, blue] = [place / 36, place / 6 % 6, place % 6].map(level);
    format!(" style=\"fill:#{red:02x}{green:02x}{blue:02x}\"")
}

fn runs(screen: &vt100::Screen, row: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..screen.size().1.get() {
        let Some(cell) = screen.cell(row, column) else { continue };
        let classes = [(cell.bold(), "bold"), (cell.dim(), "dim"), (cell.inverse(), "on-bar")];
        let class: Vec<_> = classes.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        let this = Run {
            column,
            class: class.join(" "),
            colour: colour(cell.fgcolor()),
            is_bar: cell.inverse(),
            ..Run::default()
        };
        let is_like = |last: &&mut Run| {
            (&last.class, &last.colour, last.is_bar) == (&this.class, &this.colour, this.is_bar)
        };
        if runs.last_mut().filter(is_like).is_none() {
            runs.push(this);
        }
        let run = runs.last_mut().unwrap();
        run.cells += 1;
        run.text.push_str(if cell.has_contents() { cell.contents() } else { " " });
    }
    runs.retain(|run| run.is_bar || !run.text.trim().is_empty());
    runs
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The screen as an SVG document, with `title` for those who cannot see it.
fn svg(screen: &vt100::Screen, title: &str) -> String {
    let (rows, columns) = screen.size();
    let width = f32::from(columns.get()) * CELL.0 + 2.0 * EDGE;
    let height = f32::from(rows.get()) * CELL.1 + 2.0 * EDGE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" \
         role=\"img\" xml:space=\"preserve\">\n<title>{}</title>\n{STYLE}\n",
        escaped(title)
    );
    for row in 0..rows.get() {
        let top = EDGE + f32::from(row) * CELL.1;
        for run in runs(screen, row) {
            let left = EDGE + f32::from(run.column) * CELL.0;
            let width = f32::from(run.cells) * CELL.0;
            if run.is_bar {
                let height = CELL.1;
                let _ = writeln!(
                    out,
                    "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                     height=\"{height}\"/>"
                );
            }
            let Run { class, colour, text, .. } = &run;
            let class =
                if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
            let base = top + 13.0;
            // Whatever font there is, the columns stay columns.
            let _ = writeln!(
                out,
                "<text{class}{colour} x=\"{left:.1}\" y=\"{base:.1}\" \
                 textLength=\"{width:.1}\">{}</text>",
                escaped(text)
            );
        }
    }
    out + "</svg>\n"
}

#[test]
fn a_picture_has_what_the_screen_shows() {
    let number = super::number;
    let mut parser = vt100::Parser::new(number(3), number(12), 0);
    parser.process(b"a<b\r\n\x1b[7mbar\x1b[0m \x1b[1;38;5;160mbad\x1b[0m");
    let picture = svg(parser.screen(), "what & why");
    let lines: Vec<_> = picture.lines().collect();
    assert_eq!(lines[1], "<title>what &amp; why</title>");
    let text = |class: &str, rest: &str| format!("<text{class} {rest}</text>");
    let all = "x=\"10.0\" y=\"23.0\" textLength=\"100.8\">a&lt;b         ";
    assert_eq!(lines[3], text("", all));
    assert_eq!(
        lines[4],
        "<rect class=\"bar\" x=\"10.0\" y=\"27.0\" width=\"25.2\" height=\"17\"/>"
    );
    let bar = "x=\"10.0\" y=\"40.0\" textLength=\"25.2\">bar";
    assert_eq!(lines[5], text(" class=\"on-bar\"", bar));
    let bad = "x=\"43.6\" y=\"40.0\" textLength=\"25.2\">bad";
    assert_eq!(lines[6], text(" class=\"bold\" style=\"fill:#d70000\"", bad));
    assert_eq!(lines[7..], ["</svg>"]);
}

/// Draws the pictures of `docs/`, of the examples in the folder that `CMWQ_EXAMPLES` names:
/// `cargo build -p cmwq --examples && CMWQ_EXAMPLES=target/debug/examples cargo test -p cmwq-cli
/// --test it draw_the_pictures_of_the_documentation -- --ignored`.
#[test]
#[ignore = "writes into docs/"]
fn draw_the_pictures_of_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let examples = std::env::var("CMWQ_EXAMPLES").expect("where the examples are");
    let folder = root.join("docs/pictures");
    fs::create_dir_all(&folder).unwrap();
    for (example, said, busy, place) in [
        ("deadlock", "ready ", "left", "deadlock.rs:"),
        ("cpu_hog", "process ", "runs!", "cpu_hog.rs:"),
    ] {
        let program = root.join(&examples).join(example);
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with(said));
        let mut screen =
            Screen::start(&["-i", "0.2", "--view", "workers", &child.id().to_string()]);
        let is_busy = |line: &str| line.starts_with("kworker/") && line.contains(busy);
        // A second look has rates, and a second is a time to show.
        let is_old = |line: &str| {
            let mut words = line.split_whitespace();
            words.any(|word| {
                word.strip_suffix('s')
                    .is_some_and(|age| age.parse::<f32>().is_ok_and(|age| age >= 1.0))
            })
        };
        screen.until("a second", |shown| shown.lines().any(|line| is_busy(line) && is_old(line)));
        screen.keys("p");
        screen.until_shows("PAUSED");
        let save = |screen: &Screen, what: &str, title: &str| {
            let picture = svg(screen.parser.screen(), title);
            fs::write(folder.join(format!("top-{example}{what}.svg")), picture).unwrap();
        };
        save(&screen, "", &format!("cmwq top, the workers of {example}"));
        screen.keys("t");
        screen.until_shows(&format!("At examples/{place}"));
        save(&screen, "-stack", &format!("cmwq top, where a worker of {example} is"));
        screen.keys("xq");
        assert!(screen.end().success());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
