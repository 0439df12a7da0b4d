//! What is left of the terminal when this panics, in one made for it.

use std::fs::File;
use std::io::Read as _;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::take_terminal;

/// Executed by the test below.
#[test]
#[ignore = "a program for another test"]
fn panics() {
    let mut terminal = take_terminal().unwrap();
    terminal.draw(|frame| frame.render_widget("the-view", frame.area())).unwrap();
    panic!("as it was told to");
}

#[test]
fn a_panic_gives_the_terminal_back_and_can_be_read() {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let user = openpt(flags).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let program: OwnedFd = ioctl_tiocgptpeer(&user, flags).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&program, size).unwrap();
    let modes =
        |of: &OwnedFd| tcgetattr(of).unwrap().local_modes & (LocalModes::ICANON | LocalModes::ECHO);
    let before = modes(&program);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "top::screen::tests::panics", "--ignored", "--nocapture"]);
    command.env("TERM", "xterm-256color").stdin(program.try_clone().unwrap());
    command.stdout(program.try_clone().unwrap()).stderr(program.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    // The command would keep the program's side open.
    drop(command);
    // A terminal that nobody reads from would stop the program.
    let mut user = File::from(user);
    let reader = std::thread::spawn(move || {
        let mut written = Vec::new();
        // The end is an error, when nobody has the other side open any more.
        let _ = user.read_to_end(&mut written);
        written
    });
    assert!(!child.wait().unwrap().success(), "a test that panics fails");
    assert_eq!(modes(&program), before);
    drop(program);
    let [rows, columns] = [24, 80].map(|number| NonZero::new(number).unwrap());
    let mut screen = vt100::Parser::new(rows, columns, 0);
    let written = reader.join().unwrap();
    let at = |text: &str| {
        let found = written.windows(text.len()).position(|part| part == text.as_bytes());
        found.unwrap_or_else(|| panic!("no {text:?} in {}", String::from_utf8_lossy(&written)))
    };
    // It was there, and had gone when the message came.
    screen.process(&written[..at("the-view")]);
    assert!(screen.screen().alternate_screen());
    screen.process(&written[at("the-view")..at("as it was told to")]);
    assert!(!screen.screen().alternate_screen());
    screen.process(&written[at("as it was told to")..]);
    assert!(!screen.screen().hide_cursor());
}
