//! The start of an agent: one line becomes the agent where hakobu is there, and else asks for the program.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};

use super::answer::{Answers, FarSystem, Heard, printable};
use super::child::{self, SshChild};
use super::error::SshError;
use hakobu_core::prompts::Prompts;
use super::settings::SshSettings;
use super::upload::{self, Parcel, static_name};
use super::{command, spoken};

/// The oldest kernel that an uploaded program is sent to: the first with `statx`. What newer ones
/// have (`openat2`, nameless files on every file system) is used where it is there.
pub const OLDEST_KERNEL: (u32, u32) = (4, 11);
/// How often sudo's question is passed on.
const MAX_PASSWORDS: u32 = 3;

/// Where the agent came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `hakobu` on the far PATH.
    OnPath,
    /// The path that was asked for.
    AtPath,
    /// Sent over.
    Uploaded,
}

/// A running agent. Its parts may be taken out; they are dropped in this order, so that the agent sees the end of its
/// input and ssh ends by itself.
#[derive(Debug)]
pub struct Started {
    /// To the agent.
    pub stdin: ChildStdin,
    /// From the agent, at the byte after its preamble.
    pub stdout: ChildStdout,
    /// The ssh process; ended when dropped.
    pub ssh: SshChild,
    /// Where the agent came from.
    pub way: Way,
    /// The program that was uploaded, to compare its digest with what the agent says of itself.
    pub uploaded: Option<PathBuf>,
    /// A path was asked for, but nothing is there; hence the upload. Worth a word to the user.
    pub agent_path_missing: bool,
}

/// Starts an agent and waits for its preamble. Where there may be further sessions, [`Sessions::start`](super::sessions::Sessions::start) does
/// it.
///
/// ssh's terminal is ours: its questions reach the user. What it says on standard error does as well, made printable. It
/// stays in our process group, so that it may ask; a Ctrl-C on the terminal reaches it too.
///
/// # Errors
/// [`SshError`]; ssh has ended then.
pub fn start(settings: &SshSettings, prompts: &mut dyn Prompts) -> Result<Started, SshError> {
    start_with(settings, &[], prompts, |_| {})
}

/// As [`start`], with more words for OpenSSH. `started` learns the number of its process.
pub(super) fn start_with(
    settings: &SshSettings,
    ours: &[String],
    prompts: &mut dyn Prompts,
    started: impl FnOnce(u32),
) -> Result<Started, SshError> {
    let mut command = command::build(settings, ours)?;
    let ear = spoken::prepare(&mut command);
    let spawned = command.spawn();
    let program = command.get_program().to_string_lossy().into_owned();
    // Here its end of a terminal would stay open.
    drop(command);
    let mut child = spawned.map_err(|error| SshError::Spawn { command: program, error })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let ssh = SshChild::new(child).heard(spoken::listen(ear, stderr)?);
    started(ssh.id());
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(SshError::Pipe(ErrorKind::BrokenPipe.into()));
    };
    let starter = Starter {
        settings,
        host: printable(&settings.host),
        stdin,
        answers: Answers::new(stdout),
        ssh,
        uploaded: None,
        path_missing: false,
        passwords: 0,
    };
    starter.run(prompts)
}

/// A start under way. Fields drop in this order: the input must close before ssh is waited for.
struct Starter<'a> {
    settings: &'a SshSettings,
    host: String,
    stdin: ChildStdin,
    answers: Answers,
    ssh: SshChild,
    uploaded: Option<PathBuf>,
    path_missing: bool,
    passwords: u32,
}

impl Starter<'_> {
    fn run(mut self, prompts: &mut dyn Prompts) -> Result<Started, SshError> {
        loop {
            match self.answers.next(self.settings.time_limit)? {
                Heard::Agent => return Ok(self.started()),
                Heard::Need(far) if self.uploaded.is_none() => self.upload(&far)?,
                // Only who asked for sudo is asked for its password, whatever the far side says.
                Heard::Password if self.settings.sudo => self.password(prompts)?,
                Heard::Fail { reason, detail } => return Err(self.failed(&reason, detail)),
                Heard::End => return Err(self.ended()),
                Heard::Late => return Err(self.late()),
                Heard::Need(_) | Heard::Password | Heard::Babble => return Err(self.no_agent()),
            }
        }
    }

    fn started(self) -> Started {
        let way = match (&self.uploaded, &self.settings.agent_path) {
            (Some(_), _) => Way::Uploaded,
            (None, Some(_)) => Way::AtPath,
            (None, None) => Way::OnPath,
        };
        Started {
            stdin: self.stdin,
            stdout: self.answers.into_input(),
            ssh: self.ssh,
            way,
            uploaded: self.uploaded,
            agent_path_missing: self.path_missing,
        }
    }

    /// Sends the program that suits the far side.
    fn upload(&mut self, far: &FarSystem) -> Result<(), SshError> {
        self.path_missing = far.path_missing;
        if far.system != "Linux" {
            return Err(SshError::System { host: self.host.clone(), system: far.system.clone() });
        }
        if kernel(&far.release).is_some_and(|release| release < OLDEST_KERNEL) {
            return Err(SshError::Kernel {
                host: self.host.clone(),
                release: far.release.clone(),
                oldest: OLDEST_KERNEL,
            });
        }
        let path = self.choose(far)?.to_owned();
        let unreadable = |error| SshError::Upload { path: path.display().to_string(), error };
        let mut parcel = Parcel::open(&path).map_err(unreadable)?;
        let sent = parcel.send(&mut self.stdin, self.settings.time_limit);
        self.uploaded = Some(path);
        sent.map_err(|error| match error.kind() {
            ErrorKind::TimedOut => self.late(),
            _ => SshError::Pipe(error),
        })
    }

    /// The program for the far machine. One that is no ELF file (a wrapper script) suits every machine.
    fn choose(&self, far: &FarSystem) -> Result<&Path, SshError> {
        let mut machines = Vec::new();
        for path in &self.settings.uploads {
            let elf = upload::inspect(path)
                .map_err(|error| SshError::Upload { path: path.display().to_string(), error })?;
            match elf {
                Some(elf) if elf.machine != far.machine => machines.push(elf.machine),
                _ => return Ok(path),
            }
        }
        if machines.is_empty() {
            return Err(SshError::NothingToUpload {
                host: self.host.clone(),
                wanted: static_name(&far.machine),
                agent: self.agent(),
            });
        }
        Err(SshError::Architecture {
            host: self.host.clone(),
            far: far.machine.clone(),
            near: machines.join(", "),
            agent: self.agent(),
        })
    }

    /// Answers sudo's question.
    fn password(&mut self, prompts: &mut dyn Prompts) -> Result<(), SshError> {
        let host = self.host.clone();
        if self.passwords == MAX_PASSWORDS {
            return Err(SshError::WrongPassword { host });
        }
        self.passwords += 1;
        let Some(secret) = prompts.sudo_password(&host, self.passwords) else {
            return Err(SshError::NoPassword { host });
        };
        // Two writes: a joined copy of the password would be one more to wipe.
        for part in [secret.expose(), b"\n"] {
            match upload::send_all(&mut self.stdin, part, self.settings.time_limit) {
                Ok(()) => {}
                // It is gone, and its output says why.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(SshError::Pipe(error)),
            }
        }
        Ok(())
    }

    /// The script's own reasons.
    fn failed(&self, reason: &str, detail: String) -> SshError {
        let host = self.host.clone();
        match reason {
            "no-sudo" => SshError::NoSudo { host },
            "no-place" => {
                let tried = format!(" {}", detail.trim().trim_end_matches(','));
                SshError::NoPlace { host, tried, agent: self.agent() }
            }
            "no-room" => SshError::NoRoom { host, place: detail },
            "digest" | "short" => SshError::Damaged { host },
            "not-executable" => SshError::NotExecutable { host, path: self.agent().unwrap_or_default() },
            _ => self.no_agent(),
        }
    }

    fn no_agent(&self) -> SshError {
        let first_line = self.answers.first_line().to_owned();
        SshError::NotAnAgent { host: self.host.clone(), first_line, agent: self.agent() }
    }

    /// What `--agent` named. A program that is sent all the same was not looked for there.
    fn agent(&self) -> Option<String> {
        self.settings.agent_path.as_deref().filter(|_| !self.settings.always_upload).map(printable)
    }

    fn late(&mut self) -> SshError {
        // It may sit at a question of its own, so there is no end to wait for.
        let _ = self.ssh.kill();
        SshError::TimedOut { host: self.host.clone(), limit: self.settings.time_limit }
    }

    /// The output ended without a preamble. ssh's exit code tells its own failures from those of the far side.
    fn ended(&mut self) -> SshError {
        let host = self.host.clone();
        let status = match self.ssh.end() {
            Ok(status) => status,
            Err(error) => return SshError::Pipe(error),
        };
        // ssh says what it has to say on its standard error: what came here came from a session.
        let spoke = !self.answers.first_line().is_empty();
        // A Ctrl-C at its question ends it by the signal.
        let failed = status.code() == Some(255) || status.signal().is_some();
        if failed && self.uploaded.is_none() && !spoke {
            SshError::Login { host, command: self.settings.typed() }
        } else if self.passwords == MAX_PASSWORDS {
            SshError::WrongPassword { host }
        } else if self.settings.sudo {
            SshError::Sudo { host }
        } else if self.answers.first_line().is_empty() {
            SshError::Ended { host, ending: child::ending(status), agent: self.agent() }
        } else {
            self.no_agent()
        }
    }
}

/// The first two numbers of a kernel release. `None` when it does not begin with two.
fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
pub(super) mod tests;
