use std::os::unix::fs::PermissionsExt;

use elevo_agent_link::Command;

use crate::support::{Agent, Pair, Server, TOKEN, finish, is_alive, until, within};

/// Starts an agent through the program `wrapper`, and runs a command in the
/// agent several times.
async fn run_behind(wrapper: &[&str], command: &str, times: usize) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let socket = directory.path().join("agent.sock");
    let server = Server::start(&socket);
    let _agent = Agent::start_as(&socket, TOKEN, wrapper);
    let link = server.link().await;
    let mut seen = Vec::new();
    for index in 0..times {
        let command = Command {
            id: index.to_string(),
            command: command.into(),
            cwd: Some("/".into()),
            read: true,
            ..Command::default()
        };
        let mut output = within(link.run(command)).await.unwrap().unwrap();
        let done = finish(&mut output).await;
        seen.push(done.stdout + &done.stderr);
    }
    seen
}

/// Runs the agent as another user. `--pdeathsig` makes the agent end with its
/// parent process. The option is needed here, because a change of the user
/// resets an earlier setting.
const AS_NOBODY: [&str; 9] = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
    "--no-new-privs",
];

#[tokio::test]
async fn a_command_cannot_inspect_the_agent() {
    let look = "
        id -u
        grep -c NoNewPrivs:.1 /proc/self/status
        for file in environ mem maps cwd fd/0 auxv; do
            if head -c 1 /proc/$PPID/$file >/dev/null 2>&1 || ls /proc/$PPID/$file/ >/dev/null 2>&1
            then echo can read $file; else echo cannot read $file; fi
        done
        head -c 1 /proc/self/environ >/dev/null && echo can read its own
    ";
    let seen = run_behind(&AS_NOBODY, look, 1).await;
    let expected = "65534\n1\ncannot read environ\ncannot read mem\ncannot read maps\n\
        cannot read cwd\ncannot read fd/0\ncannot read auxv\ncan read its own\n";
    assert_eq!(seen, [expected]);
}

#[tokio::test]
async fn pid_1_cannot_be_killed_from_inside() {
    let wrapper = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
    ];
    let wrapper: Vec<_> = wrapper.into_iter().chain(AS_NOBODY).collect();
    // The command sends fatal signals to the agent as soon as it runs, while
    // the agent may still be busy with starting it.
    let attack = "
        for signal in TERM INT HUP QUIT USR1 PIPE SEGV SEGV STOP KILL; do kill -$signal 1; done
        echo $PPID is alive
    ";
    for seen in run_behind(&wrapper, attack, 50).await {
        assert_eq!(seen, "1 is alive\n");
    }
}

/// A signal with a handler reaches PID 1 from inside, too. Signals from 32 on
/// belong to the C library.
#[tokio::test]
async fn the_agent_handles_no_signal() {
    let pair = Pair::start().await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", pair.agent.pid())).unwrap();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:\t"));
    let caught = u64::from_str_radix(caught.unwrap(), 16).unwrap();
    assert_eq!(caught & 0x7fff_ffff, 0, "{status}");
}

/// Counts the dead children of a process that are not reaped.
fn zombies_of(parent: u32) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|p| std::fs::read_to_string(p.path().join("stat")).ok());
    let is_zombie = |stat: &String| {
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = rest.split_whitespace();
        fields.next() == Some("Z") && fields.next() == Some(&parent.to_string())
    };
    stats.filter(is_zombie).count()
}

#[tokio::test]
async fn orphans_are_reaped() {
    let pair = Pair::start().await;
    let agent = pair.agent.pid();
    let orphan = "while [ ! -e end ]; do sleep 0.05; done";
    let script = format!("for i in 1 2 3 4 5; do (({orphan}) > /dev/null & echo $!); done");
    let done = pair.run(&script).await;
    let orphans: Vec<_> = done.stdout.lines().map(str::to_owned).collect();
    assert_eq!(orphans.len(), 5, "{done:?}");
    let parent = format!("PPid:\t{agent}\n");
    until("the agent is their parent", || {
        let status = |pid| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        orphans.iter().all(|pid| status(pid).contains(&parent))
    })
    .await;
    std::fs::write(pair.directory.path().join("end"), "").unwrap();
    until("they have ended", || {
        !orphans.iter().any(|pid| is_alive(pid))
    })
    .await;
    until("none is left", || zombies_of(agent) == 0).await;
    // Neither fast commands nor commands that cannot start leave zombies.
    for _ in 0..20 {
        pair.run("true & true").await;
        let mut command = pair.command("x", "true");
        command.cwd = Some("/nowhere".into());
        assert!(within(pair.link.run(command)).await.is_err());
    }
    until("none is left", || zombies_of(agent) == 0).await;
}

#[tokio::test]
async fn commands_inherit_no_files_of_the_agent() {
    let pair = Pair::start().await;
    let mut command = pair.command("fds", "umask; ls -l /proc/self/fd");
    command.open_stdin = true;
    let mut output = pair.start_command(command).await;
    let seen = finish(&mut output).await.stdout;
    assert!(seen.starts_with("0022\n"), "{seen}");
    let pipes = [" 0 -> pipe:", " 1 -> pipe:", " 2 -> pipe:"];
    assert!(pipes.iter().all(|pipe| seen.contains(pipe)), "{seen}");
    for ours in ["socket:", "eventpoll", "eventfd", "ptmx"] {
        assert!(!seen.contains(ours), "{seen}");
    }
}
