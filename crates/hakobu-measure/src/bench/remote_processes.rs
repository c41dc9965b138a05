//! Observes the host through one shell that runs there for the whole bench, over its own login.
//!
//! The script arrives on standard input, so no login shell interprets it. When this end goes away for any reason, the
//! input ends and the shell removes what was created on the host. If the input does not end, because the network
//! failed silently or the shell was killed, a watcher process does the cleanup. It expects a periodic sign of life
//! from this end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::error::{BenchError, BenchResult};
use super::processes::{ProcessRoot, ProcessSnapshot, THREADS_MAX, parse_moment};
use super::shell::quoted;

/// The time limit for the login.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);
/// The time that ssh may take to exit after its output has ended.
const END_LIMIT: Duration = Duration::from_secs(5);
/// The time limit for an answer that costs the host nothing.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The maximum number of bytes that a shell may print before it answers, and of a line and an answer.
const LINE_BYTES_MAX: u64 = 64 * 1024;
const LINES_MAX: usize = 20_000;
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The maximum number of bytes kept of ssh's standard error.
const WORDS_BYTES_MAX: u64 = 16 * 1024;
/// The interval of signs of life to the watcher on the host, and the seconds of silence after which it cleans up.
const SIGNS: LivenessSigns = LivenessSigns { every: Duration::from_secs(5), silence_s: 120 };
/// Marks the end of an answer. No login banner contains a NUL.
const MARK: &str = "\0hakobu-bench:";

/// Functions for the host's shell. `look` prints one moment, see [`parse_moment`]. awk has the shell list the threads
/// of many processes at once, and reads the waiting time of each that still exists. `watch` starts a process that
/// removes a directory, and the directory of a link to it, when the shell is gone or silent. The watcher is detached.
/// Before it removes the directory, it ends processes that still have files open in it, since their other end is
/// lost.
const PROLOGUE: &str = r#"
LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export PATH; unset HISTFILE
base=; root=; at=$$
while [ "${at:-0}" -gt 1 ]; do
  stat=; { read -r stat <"/proc/$at/stat"; } 2>/dev/null
  name=${stat#*\(}; set -- ${stat##*\) }; : "${base:=${20:-0}}"
  case $name in sshd*|dropbear*) root=$at;; *) if [ -n "$root" ]; then break; fi;; esac
  at=${2:-0}
done
# A session that systemd has started has no server above it.
if [ -n "$root" ]; then
  case $(tr '\000' ' ' <"/proc/$root/cmdline" 2>/dev/null) in
    *"[listener]"*) ;;
    sshd:*|sshd-session:*) root=$at;;
  esac
fi
made=; trap 'if [ -n "$made" ]; then eval "rm -rf -- $made"; fi' EXIT; trap 'exit 1' HUP INT TERM PIPE
watchers=
watch() {
  new=$( (
    left=$silence; trap 'left=$silence' USR1; trap '' HUP INT TERM PIPE; cd / || :
    exec </dev/null >/dev/null 2>&1
    while [ "$left" -gt 0 ] && [ -d "$1" ] && kill -0 $$; do sleep "$step" || exit 0; left=$((left - step)); done
    [ -d "$1" ] || exit 0
    real=$(cd "$1" && pwd -P)
    [ -z "$real" ] || ls -l /proc/[0-9]*/fd | while read -r line; do
      case $line in
        /proc/*/fd:) pid=${line#/proc/}; pid=${pid%/fd:};;
        *" -> $real/"*) kill "$pid";;
      esac
    done
    rm -rf -- "$@"; sleep 1; rm -rf -- "$@"
  ) & echo $! )
  watchers="$watchers $new"
}
sign() { if [ -n "$watchers" ]; then kill -USR1 $watchers; fi; } 2>/dev/null
look() {
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v base="$base" -v root="${root:-0}" -v threads="$threads" '
    function add_up(  list, file, part, line, number) {
      if (files == "") return
      list = "printf \"%s\\n\"" files; files = ""
      while ((list | getline file) > 0) {
        split(file, part, "/")
        if ((getline line < file) > 0) { split(line, number, " "); waited[part[3]] += number[2] }
        close(file) }
      close(list) }
    { match($0, /\)[^)]*$/); split(substr($0, RSTART + 2), field, " "); pid = $1 + 0
      if (field[20] + 0 >= base + 0 || pid == root + 0) {
        print "P " $0
        if (field[18] + 0 <= threads + 0) files = files " /proc/" pid "/task/[0-9]*/schedstat"
        if (length(files) > 30000) add_up() } }
    END { add_up(); for (pid in waited) printf "W %d %.0f\n", pid, waited[pid] }'
  awk '/^Tcp:/ { if (!n) n = split($0, name, " ")
                 else { split($0, value, " "); for (i = 2; i <= n; i++) if (name[i] == "RetransSegs") print "R " value[i] } }' \
    /proc/net/snmp 2>/dev/null
}
"#;

/// The interval of signs of life, and the silence in seconds after which the watcher acts.
#[derive(Debug, Clone, Copy)]
struct LivenessSigns {
    every: Duration,
    silence_s: u32,
}

/// The shell on the host.
#[derive(Debug)]
pub(super) struct FarShell {
    child: Child,
    input: Arc<Mutex<Option<ChildStdin>>>,
    answers: Receiver<Vec<String>>,
    words: Arc<Mutex<Vec<u8>>>,
    host: String,
    /// The number of outstanding answers.
    asked: usize,
    server: Option<u32>,
}

impl FarShell {
    /// Logs in with this command, to which the remote command `sh` is added here.
    pub fn open(command: Command, host: &str, stop: &dyn Fn() -> bool) -> BenchResult<Self> {
        Self::open_with(command, host, SIGNS, stop)
    }

    fn open_with(
        mut command: Command,
        host: &str,
        signs: LivenessSigns,
        stop: &dyn Fn() -> bool,
    ) -> BenchResult<Self> {
        command.arg("sh").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C must reach only this program, which then ends the shell.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .spawn()
            .map_err(BenchError::io(format!("starting {}", command.get_program().display())))?;
        let (send, answers) = sync_channel(64);
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || read_answers(output, |answer| send.send(answer).is_ok()));
        }
        let words = Arc::new(Mutex::new(Vec::new()));
        if let Some(errors) = child.stderr.take() {
            let kept = Arc::clone(&words);
            std::thread::spawn(move || keep_words(errors, &kept));
        }
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let host = host.to_owned();
        let mut shell = Self { child, input, answers, words, host, asked: 0, server: None };
        let began = Instant::now();
        let asked = shell
            .send(&prologue(signs))
            .and_then(|()| shell.ask_for("echo \"root $root\"", LOGIN_LIMIT, stop));
        let root = asked.map_err(|error| match error {
            BenchError::Lost(_) => shell.not_in(began),
            other => other,
        })?;
        shell.server = root.iter().find_map(|line| line.strip_prefix("root ")?.parse().ok());
        let input = Arc::downgrade(&shell.input);
        std::thread::spawn(move || give_signs(&input, signs.every));
        Ok(shell)
    }

    /// Determines why there is no shell.
    fn not_in(&mut self, began: Instant) -> BenchError {
        // The output may end a moment before ssh exits.
        let closed = began.elapsed() < LOGIN_LIMIT;
        let deadline = Instant::now() + END_LIMIT;
        let mut ended = false;
        while closed && !ended && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            ended = !matches!(self.child.try_wait(), Ok(None));
        }
        let words = self.words();
        match (ended, words.is_empty()) {
            (true, false) => BenchError::Login(words),
            (true, true) => BenchError::NoShell(
                "the login was ended without a word; a shell is needed over there".to_owned(),
            ),
            (false, _) => BenchError::NoShell(format!(
                "no shell has answered in {} s; the login must run commands by a shell",
                began.elapsed().as_secs()
            )),
        }
    }

    /// Returns the process ID of the ssh server, if known.
    pub fn server(&self) -> Option<u32> {
        self.server
    }

    /// Returns the last lines that ssh and the host's shell wrote to standard error.
    pub fn words(&self) -> String {
        let bytes = self.words.lock().map(|words| words.clone()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(4)..].join(" / ")
    }

    fn send(&mut self, script: &str) -> BenchResult<()> {
        let host = &self.host;
        let lost = |words: String| BenchError::Lost(format!("the connection to {host} was lost: {words}"));
        let mut input = self.input.lock().map_err(|_| lost("it was closed".to_owned()))?;
        let Some(input) = input.as_mut() else { return Err(lost("it was closed".to_owned())) };
        input
            .write_all(script.as_bytes())
            .and_then(|()| input.flush())
            .map_err(|error| lost(error.to_string()))
    }

    /// Runs a script on the host and returns its output lines.
    pub fn ask(&mut self, script: &str) -> BenchResult<Vec<String>> {
        self.ask_for(script, ANSWER_LIMIT, &|| false)
    }

    /// Runs a script like [`FarShell::ask`] with its own time limit. Stops waiting when `stop` returns true.
    pub fn ask_for(
        &mut self,
        script: &str,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> BenchResult<Vec<String>> {
        self.begin(script)?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(answer) = self.poll(Duration::from_millis(50))?
                && self.asked == 0
            {
                return Ok(answer);
            }
            if stop() {
                return Err(BenchError::Stopped);
            }
            if Instant::now() > deadline {
                return Err(BenchError::Lost(format!(
                    "{} has not answered for {} s",
                    self.host,
                    limit.as_secs()
                )));
            }
        }
    }

    /// Starts a script whose answer is polled for.
    pub fn begin(&mut self, script: &str) -> BenchResult<()> {
        self.send(&format!("{script}\nprintf '\\n\\000hakobu-bench:\\n'\n"))?;
        self.asked += 1;
        Ok(())
    }

    /// Returns true if an answer is outstanding.
    pub fn is_asked(&self) -> bool {
        self.asked > 0
    }

    /// Returns the next answer, if it arrives within `wait`.
    pub fn poll(&mut self, wait: Duration) -> BenchResult<Option<Vec<String>>> {
        match self.answers.recv_timeout(wait) {
            Ok(answer) => {
                self.asked = self.asked.saturating_sub(1);
                Ok(Some(answer))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let words = self.words();
                let why = if words.is_empty() { String::new() } else { format!(": {words}") };
                Err(BenchError::Lost(format!("the connection to {} was lost{why}", self.host)))
            }
        }
    }

    /// Returns true if a process listens on this port on the host.
    pub fn listens(&mut self, port: u16) -> BenchResult<bool> {
        let script = format!(
            "for table in /proc/net/tcp /proc/net/tcp6; do while read -r _ at _ state _; do \
             case $at.$state in *:{port:04X}.0A) echo listens;; esac; done <$table; done 2>/dev/null"
        );
        Ok(self.ask(&script)?.iter().any(|line| line == "listens"))
    }

    /// Returns a plain path to a program on the host. If its own path is not plain, this is a symbolic link at `link`
    /// in a scratch directory. `None` if the program cannot be run.
    pub fn program(&mut self, path: &str, link: &str) -> BenchResult<Option<String>> {
        let script = format!(
            "path={}; case $path in \"~/\"*) path=$HOME/${{path#??}};; /*) ;; *) path=$PWD/$path;; esac\n\
             if [ -f \"$path\" ] && [ -x \"$path\" ]; then case $path in *[!A-Za-z0-9/._+,:@%-]*) \
             ln -sf \"$path\" {link} && echo 'at {link}';; *) printf 'at %s\\n' \"$path\";; esac; fi",
            quoted(path)
        );
        let lines = self.ask(&script)?;
        Ok(lines.iter().find_map(|line| line.strip_prefix("at ")).map(str::to_owned))
    }

    /// Makes a file on the host executable and runs it with `--version`. Returns the output, or the shell's message,
    /// if it is not a working hakobu.
    pub fn tried_out(&mut self, path: &str) -> BenchResult<Option<String>> {
        let path = quoted(path);
        let lines = self.ask(&format!("chmod 755 {path} && {path} --version 2>&1 | head -n 3"))?;
        let runs = lines.iter().any(|line| line.starts_with("hakobu "));
        Ok((!runs).then(|| lines.join(" ").trim().to_owned()))
    }

    /// Returns a snapshot of the processes on the host.
    pub fn moment(&mut self) -> BenchResult<ProcessSnapshot> {
        self.ask("look").map(|lines| moment_of(&lines))
    }

    /// Returns the roots whose descendants belong to a run on the host.
    pub fn roots(&self) -> Vec<ProcessRoot> {
        self.server.map(ProcessRoot::Server).into_iter().collect()
    }

    /// Creates a scratch directory below `below` that is removed with the shell. Returns its plain path and its free
    /// space in bytes, or the host's reason for failure.
    pub fn scratch(&mut self, below: &str) -> BenchResult<std::result::Result<(String, u64), String>> {
        let lines = self.ask(&scratch_script(below))?;
        let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        let free = value("free ").and_then(|free| free.trim().parse::<u64>().ok());
        Ok(match (value("at "), free) {
            (Some(path), Some(free)) if super::shell::is_plain(&path) => {
                Ok((path, free.saturating_mul(1024)))
            }
            (Some(_), None) => Err(format!("df does not tell how much is free below {below}")),
            _ => Err(value("no ").unwrap_or_else(|| format!("nothing can be written to {below}"))),
        })
    }
}

fn prologue(signs: LivenessSigns) -> String {
    let step_s = (signs.silence_s / 24).max(1);
    format!("silence={}; step={step_s}; threads={THREADS_MAX}\n{PROLOGUE}", signs.silence_s)
}

/// Sends signs of life to the watcher until the input is closed.
fn give_signs(input: &Weak<Mutex<Option<ChildStdin>>>, every: Duration) {
    loop {
        std::thread::sleep(every);
        let Some(input) = input.upgrade() else { return };
        let Ok(mut input) = input.lock() else { return };
        let Some(input) = input.as_mut() else { return };
        if input.write_all(b"sign\n").and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

/// Returns the script that creates a scratch directory. If its path is not plain, a symbolic link with a plain path
/// leads to it.
fn scratch_script(below: &str) -> String {
    format!(
        r#"below={below}
case $below in "~/"*) below=$HOME/${{below#??}};; esac
number=$((${{number:-0}} + 2))
fresh() {{
  if command -v mktemp >/dev/null; then mktemp -d "$1/hakobu-bench.XXXXXXXX"; return; fi
  (umask 077; mkdir "$1/hakobu-bench.$$.$2") && echo "$1/hakobu-bench.$$.$2"
}}
if dir=$(fresh "$below" "$number" 2>&1); then
  at=$dir; rest=$dir; word=
  while :; do
    case $rest in *"'"*) word="$word${{rest%%"'"*}}'\''"; rest=${{rest#*"'"}};; *) word="$word$rest"; break;; esac
  done
  made="$made '$word'"
  case $dir in *[!A-Za-z0-9/._+,:@%-]*)
    at=$(fresh /tmp $((number + 1))) && made="$made '$at'" && ln -s "$dir" "$at/d" && at=$at/d;; esac
  case $at in */d) watch "$dir" "${{at%/d}}";; *) watch "$dir";; esac
  mkdir "$at/source" "$at/target"
  printf 'at %s\n' "$at"
  free=$(df -Pk "$dir" 2>/dev/null | {{ read -r _; read -r _ _ _ free _; echo "$free"; }})
  case $below/$(stat -f -c %T "$dir" 2>/dev/null) in
    */tmpfs|*/ramfs|/dev/shm/*)
      have=; while read -r key value _; do case $key in MemAvailable:) have=$value;; esac; done </proc/meminfo
      if [ -n "$have" ] && [ "$have" -lt "${{free:-0}}" ]; then free=$have; fi;;
  esac
  printf 'free %s\n' "$free"
else printf 'no %s\n' "$dir"; fi"#,
        below = quoted(below)
    )
}

pub(super) fn moment_of(lines: &[String]) -> ProcessSnapshot {
    parse_moment(lines.iter().map(String::as_str))
}

/// Reads lines up to each mark. Returns when the receiver is gone or the output is not a valid answer.
fn read_answers(output: impl Read, mut take: impl FnMut(Vec<String>) -> bool) {
    let mut output = BufReader::new(output);
    let (mut answer, mut answer_bytes): (Vec<String>, usize) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.starts_with(MARK.as_bytes()) {
            // The mark is preceded by a line feed, which leaves an empty last line.
            answer.pop_if(|last| last.is_empty());
            if !take(std::mem::take(&mut answer)) {
                return;
            }
            answer_bytes = 0;
            continue;
        }
        answer_bytes += line.len();
        if answer.len() >= LINES_MAX || answer_bytes > ANSWER_BYTES_MAX {
            return;
        }
        answer.push(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned());
    }
}

fn keep_words(errors: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut errors = errors;
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = errors.read(&mut buffer) {
        if let Ok(mut kept) = kept.lock() {
            kept.extend_from_slice(&buffer[..length]);
            let over = kept.len().saturating_sub(WORDS_BYTES_MAX as usize);
            kept.drain(..over);
        }
    }
}

impl Drop for FarShell {
    fn drop(&mut self) {
        // The end of its input ends the shell, which cleans up.
        if let Ok(mut input) = self.input.lock() {
            drop(input.take());
        }
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[path = "remote_processes_tests.rs"]
mod tests;
