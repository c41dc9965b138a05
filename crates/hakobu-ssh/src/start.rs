//! Starts an agent: one command line becomes the agent if hakobu is installed on the remote host, and otherwise asks
//! for the program.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};

use super::answer::{AgentAnswer, FarSystem, PreambleReader, printable};
use super::child::{self, SshChild};
use super::error::SshError;
use super::settings::SshSettings;
use super::upload::{self, Parcel, static_name};
use super::{command, peer_output};
use hakobu_core::prompts::Prompts;

/// The oldest kernel for which a program is uploaded: the first with `statx`. Newer features (`openat2`, unnamed files
/// on every file system) are used if available.
pub const OLDEST_KERNEL: (u32, u32) = (4, 11);
/// The number of times that sudo's question is passed on.
const MAX_PASSWORDS: u32 = 3;

/// The origin of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOrigin {
    /// `hakobu` on the remote PATH.
    OnPath,
    /// The requested path.
    AtPath,
    /// Uploaded.
    Uploaded,
}

/// A running agent. Its parts may be taken out. They are dropped in this order, so that the agent sees the end of its
/// input and ssh ends by itself.
#[derive(Debug)]
pub struct RunningAgent {
    /// The pipe to the agent.
    pub stdin: ChildStdin,
    /// The pipe from the agent, at the byte after its preamble.
    pub stdout: ChildStdout,
    /// The ssh process. It is ended when dropped.
    pub ssh: SshChild,
    /// The origin of the agent.
    pub way: AgentOrigin,
    /// The program that was uploaded, to compare its digest with the one that the agent reports.
    pub uploaded: Option<PathBuf>,
    /// True if a path was requested but does not exist, so the program was uploaded. The user should be told.
    pub agent_path_missing: bool,
}

/// Starts an agent and waits for its preamble. If there may be further sessions, use
/// [`Sessions::start`](super::sessions::Sessions::start) instead.
///
/// ssh shares this process's terminal, so its questions reach the user. Its standard error output is shown too, made
/// printable. It stays in this process group, so that it may ask; a Ctrl-C on the terminal reaches it as well.
///
/// # Errors
/// [`SshError`]; ssh has then ended.
pub fn start(settings: &SshSettings, prompts: &mut dyn Prompts) -> Result<RunningAgent, SshError> {
    start_with(settings, &[], prompts, |_| {})
}

/// Starts an agent like [`start`], with more arguments for OpenSSH. `started` receives its process ID.
pub(super) fn start_with(
    settings: &SshSettings,
    ours: &[String],
    prompts: &mut dyn Prompts,
    started: impl FnOnce(u32),
) -> Result<RunningAgent, SshError> {
    let mut command = command::build(settings, ours)?;
    let ear = peer_output::prepare(&mut command);
    let spawned = command.spawn();
    let program = command.get_program().to_string_lossy().into_owned();
    // The command would keep its end of a terminal open.
    drop(command);
    let mut child = spawned.map_err(|error| SshError::Spawn { command: program, error })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let ssh = SshChild::new(child).heard(peer_output::listen(ear, stderr)?);
    started(ssh.id());
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(SshError::Pipe(ErrorKind::BrokenPipe.into()));
    };
    let starter = AgentStart {
        settings,
        host: printable(&settings.host),
        stdin,
        answers: PreambleReader::new(stdout),
        ssh,
        uploaded: None,
        path_missing: false,
        passwords: 0,
    };
    starter.run(prompts)
}

/// A start in progress. Fields drop in this order: the input must close before ssh is waited for.
struct AgentStart<'a> {
    settings: &'a SshSettings,
    host: String,
    stdin: ChildStdin,
    answers: PreambleReader,
    ssh: SshChild,
    uploaded: Option<PathBuf>,
    path_missing: bool,
    passwords: u32,
}

impl AgentStart<'_> {
    fn run(mut self, prompts: &mut dyn Prompts) -> Result<RunningAgent, SshError> {
        loop {
            match self.answers.next(self.settings.time_limit)? {
                AgentAnswer::Agent => return Ok(self.started()),
                AgentAnswer::Need(far) if self.uploaded.is_none() => self.upload(&far)?,
                // The password is only requested if the user asked for sudo, whatever the remote side sends.
                AgentAnswer::Password if self.settings.sudo => self.password(prompts)?,
                AgentAnswer::Fail { reason, detail } => return Err(self.failed(&reason, detail)),
                AgentAnswer::End => return Err(self.ended()),
                AgentAnswer::Late => return Err(self.late()),
                AgentAnswer::Need(_) | AgentAnswer::Password | AgentAnswer::Babble => {
                    return Err(self.no_agent());
                }
            }
        }
    }

    fn started(self) -> RunningAgent {
        let way = match (&self.uploaded, &self.settings.agent_path) {
            (Some(_), _) => AgentOrigin::Uploaded,
            (None, Some(_)) => AgentOrigin::AtPath,
            (None, None) => AgentOrigin::OnPath,
        };
        RunningAgent {
            stdin: self.stdin,
            stdout: self.answers.into_input(),
            ssh: self.ssh,
            way,
            uploaded: self.uploaded,
            agent_path_missing: self.path_missing,
        }
    }

    /// Sends the program that suits the remote host.
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

    /// Returns the program for the remote host. One that is not an ELF file (a wrapper script) suits every host.
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
        // Two writes: a concatenated copy of the password would have to be wiped too.
        for part in [secret.expose(), b"\n"] {
            match upload::send_all(&mut self.stdin, part, self.settings.time_limit) {
                Ok(()) => {}
                // The remote side is gone, and its output states the reason.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(SshError::Pipe(error)),
            }
        }
        Ok(())
    }

    /// Converts the script's failure reasons.
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

    /// Returns the path given with `--agent`, unless the program is always uploaded.
    fn agent(&self) -> Option<String> {
        self.settings.agent_path.as_deref().filter(|_| !self.settings.always_upload).map(printable)
    }

    fn late(&mut self) -> SshError {
        // It may be waiting at a question, so do not wait for it to end by itself.
        let _ = self.ssh.kill();
        SshError::TimedOut { host: self.host.clone(), limit: self.settings.time_limit }
    }

    /// Returns the error if the output ended without a preamble. ssh's exit code distinguishes its own failures from
    /// those of the remote side.
    fn ended(&mut self) -> SshError {
        let host = self.host.clone();
        let status = match self.ssh.end() {
            Ok(status) => status,
            Err(error) => return SshError::Pipe(error),
        };
        // ssh writes its own messages to standard error, so any output here came from a session.
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

/// Returns the first two numbers of a kernel release, or `None` if it does not begin with two.
fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
pub(super) mod tests;
