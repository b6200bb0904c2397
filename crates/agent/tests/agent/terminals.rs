use elevo_agent_link::{Event, LinkError, Output, ProcessKind, Settings, StartFailure, Terminal};

use crate::support::{Pair, bytes, is_alive, read_until, until, within};

fn terminal(pair: &Pair, id: &str) -> Terminal {
    let mut terminal = Terminal {
        id: id.into(),
        cols: 80,
        rows: 24,
        shell: Some("/bin/sh".into()),
        cwd: Some(pair.directory.path().to_str().unwrap().into()),
        ..Terminal::default()
    };
    terminal.envs.insert("PS1".into(), "ready> ".into());
    terminal
}

async fn open(pair: &Pair, id: &str) -> Output {
    within(pair.link.open_terminal(terminal(pair, id)))
        .await
        .unwrap();
    let mut output = within(pair.link.attach(id, 0)).await.unwrap();
    read_until(&mut output, "ready> ").await;
    output
}

async fn type_in(pair: &Pair, id: &str, text: &str) {
    within(pair.link.input(id, bytes(text), false))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_terminal_echoes_runs_and_exits() {
    let pair = Pair::start().await;
    let mut output = open(&pair, "t").await;
    type_in(&pair, "t", "echo $((6*7))\r").await;
    let shown = read_until(&mut output, "42\r\n").await;
    assert!(shown.starts_with("echo $((6*7))\r\n"), "{shown:?}");
    type_in(&pair, "t", "tty; ps -o tty= -p $$\r").await;
    read_until(&mut output, "/dev/pts/").await;
    let process = pair.link.process("t").unwrap();
    assert_eq!(process.kind, ProcessKind::Terminal);
    type_in(&pair, "t", "exit 7\r").await;
    let exit = loop {
        if let Event::Exit(exit) = within(output.next()).await.unwrap() {
            break exit;
        }
    };
    assert_eq!(exit.code, Some(7));
    let late = within(pair.link.input("t", bytes("x"), false)).await;
    assert_eq!(late, Err(LinkError::Ended));
    let late = within(pair.link.resize("t", 10, 10)).await;
    assert_eq!(late, Err(LinkError::Ended));
}

#[tokio::test]
async fn a_terminal_has_a_size_that_changes() {
    let pair = Pair::start().await;
    let mut output = open(&pair, "t").await;
    type_in(&pair, "t", "stty size\r").await;
    read_until(&mut output, "24 80\r\n").await;
    within(pair.link.resize("t", 132, 50)).await.unwrap();
    type_in(&pair, "t", "stty size\r").await;
    read_until(&mut output, "50 132\r\n").await;
    let none = within(pair.link.resize("t", 0, 50)).await;
    assert!(matches!(none, Err(LinkError::Invalid(_))));
}

#[tokio::test]
async fn an_interrupt_ends_the_job_and_not_the_shell() {
    let pair = Pair::start().await;
    let mut output = open(&pair, "t").await;
    // The job itself reports that it runs.
    type_in(&pair, "t", "sh -c 'echo begin; exec sleep 1000'\r").await;
    read_until(&mut output, "begin\r\n").await;
    type_in(&pair, "t", "\x03").await;
    let shown = read_until(&mut output, "ready> ").await;
    assert!(shown.contains("^C"), "{shown:?}");
    type_in(&pair, "t", "echo still $((40+2))\r").await;
    read_until(&mut output, "still 42\r\n").await;
}

#[tokio::test]
async fn a_job_can_be_stopped_and_continued() {
    let pair = Pair::start().await;
    let mut terminal = terminal(&pair, "t");
    terminal.shell = None;
    within(pair.link.open_terminal(terminal)).await.unwrap();
    let mut output = within(pair.link.attach("t", 0)).await.unwrap();
    // The job itself reports that it runs.
    type_in(&pair, "t", "set -m; sh -c 'echo begun; exec sleep 1000'\r").await;
    read_until(&mut output, "begun\r\n").await;
    type_in(&pair, "t", "\x1a").await;
    read_until(&mut output, "topped").await;
    type_in(&pair, "t", "kill %1; wait; echo done\r").await;
    read_until(&mut output, "done\r\n").await;
}

#[tokio::test]
async fn closing_a_terminal_hangs_up_its_processes() {
    let pair = Pair::start().await;
    let mut output = open(&pair, "t").await;
    type_in(&pair, "t", "sh -c 'echo pid $$.; sleep 1000; :'\r").await;
    let shown = loop {
        let shown = read_until(&mut output, ".\r\n").await;
        if !shown.ends_with("$$.\r\n") {
            break shown;
        }
    };
    let pid: String = shown
        .rsplit("pid ")
        .next()
        .unwrap()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    assert!(is_alive(&pid), "{shown:?}");
    within(pair.link.close_terminal("t")).await.unwrap();
    while !matches!(within(output.next()).await.unwrap(), Event::Exit(_)) {}
    until("the job is gone", || !is_alive(&pid)).await;
    let again = within(pair.link.close_terminal("t")).await;
    assert_eq!(again, Err(LinkError::Ended));
}

#[tokio::test]
async fn a_shell_that_ignores_the_hang_up_is_killed() {
    let pair = Pair::start().await;
    let mut output = open(&pair, "t").await;
    type_in(&pair, "t", "trap '' HUP TERM; echo d''eaf\r").await;
    read_until(&mut output, "deaf\r\n").await;
    within(pair.link.close_terminal("t")).await.unwrap();
    let exit = loop {
        if let Event::Exit(exit) = within(output.next()).await.unwrap() {
            break exit;
        }
    };
    assert_eq!(exit.signal, Some(9));
}

#[tokio::test]
async fn a_terminal_that_cannot_start_reports_the_cause() {
    let pair = Pair::start().await;
    let mut no_shell = terminal(&pair, "t");
    no_shell.shell = Some("/bin/no-such-shell".into());
    let failed = within(pair.link.open_terminal(no_shell)).await;
    let Err(LinkError::CannotStart { kind, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(kind, StartFailure::NoShell);
    let mut no_cwd = terminal(&pair, "t");
    no_cwd.cwd = Some("/nowhere".into());
    let failed = within(pair.link.open_terminal(no_cwd)).await;
    let Err(LinkError::CannotStart { kind, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(kind, StartFailure::NoCwd);
}

#[tokio::test]
async fn the_number_of_terminals_is_limited() {
    let settings = Settings {
        terminals: 2,
        ..Settings::default()
    };
    let pair = Pair::with(settings).await;
    let _one = open(&pair, "one").await;
    let mut two = open(&pair, "two").await;
    let three = within(pair.link.open_terminal(terminal(&pair, "three"))).await;
    let limit = LinkError::TooMany {
        what: "terminals".into(),
        limit: 2,
    };
    assert_eq!(three, Err(limit));
    type_in(&pair, "two", "exit\r").await;
    while !matches!(within(two.next()).await.unwrap(), Event::Exit(_)) {}
    open(&pair, "three").await;
}

#[tokio::test]
async fn a_terminal_without_readers_keeps_running() {
    let pair = Pair::start().await;
    drop(open(&pair, "t").await);
    type_in(
        &pair,
        "t",
        "head -c 5000000 /dev/zero | tr '\\0' x; touch done\r",
    )
    .await;
    let file = pair.directory.path().join("done");
    until("it has written everything", || file.exists()).await;
}

#[tokio::test]
async fn numbered_input_is_written_once_for_each_client() {
    let pair = Pair::start().await;
    let mut output = open(&pair, "t").await;
    let send = async |client: &str, seq, text: &str| {
        let sending = pair.link.numbered_input("t", bytes(text), client, seq);
        within(sending).await
    };
    send("a", 1, "echo a1 >> log\r").await.unwrap();
    send("a", 1, "echo a1 >> log\r").await.unwrap();
    send("b", 1, "echo b1 >> log\r").await.unwrap();
    send("a", 2, "echo a2 >> log\r").await.unwrap();
    send("a", 1, "echo a1 >> log\r").await.unwrap();
    type_in(&pair, "t", "cat log; echo e''nd\r").await;
    let shown = read_until(&mut output, "end\r\n").await;
    assert!(shown.contains("a1\r\nb1\r\na2\r\nend"), "{shown:?}");
    let long = "x".repeat(70_000);
    let refused = send("a", 3, &long).await;
    assert!(matches!(refused, Err(LinkError::Invalid(_))), "{refused:?}");
    pair.start_command(pair.command("c", "sleep 100")).await;
    let sending = pair.link.numbered_input("c", bytes("x"), "a", 1);
    let refused = within(sending).await;
    assert!(matches!(refused, Err(LinkError::Invalid(_))), "{refused:?}");
}
