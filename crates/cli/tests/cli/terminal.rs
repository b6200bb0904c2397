//! Colours appear on terminals only.

use std::process::Command;

use crate::common::{ELEVO, Place, clean, ended};

/// Runs `elevo` on a terminal, through `script`.
fn on_a_terminal(place: &Place, args: &str, no_color: bool) -> String {
    let mut command = Command::new("script");
    clean(&mut command);
    command
        .args(["--quiet", "--return", "--command"])
        .arg(format!("'{}' {args}", *ELEVO))
        .arg("/dev/null")
        .current_dir(place.path(""))
        .env("TERM", "xterm");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let ended = ended(&mut command);
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[test]
fn colours_are_for_terminals_only() {
    let place = Place::with_history();
    for args in [
        "log",
        "diff -p v1..v2",
        "show --stat",
        "ls v1",
        "tag",
        "show nothing",
    ] {
        let seen = on_a_terminal(&place, args, false);
        assert!(seen.contains("\x1b["), "{args}: {seen:?}");
        let seen = on_a_terminal(&place, args, true);
        assert!(!seen.contains("\x1b["), "{args}: {seen:?}");
        let ended = place.run(args.split(' '));
        assert!(!ended.stdout.contains(&0x1b), "{args}");
        assert!(!ended.stderr.contains('\x1b'), "{args}");
    }
}
