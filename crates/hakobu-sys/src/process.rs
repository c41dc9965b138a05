//! Waits for child processes together with their resource usage, and starts processes without a terminal.
//!
//! The standard library and rustix reap children without returning the kernel's resource usage, which is lost
//! afterwards. `wait4` returns both.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("struct rusage below is laid out for 64-bit Linux");

/// The resource usage of a process that has ended, including the descendants it waited for (but not those it left
/// running).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The exit status of the process.
    pub status: ExitStatus,
    /// CPU time in user mode, as a sum over threads and waited-for descendants.
    pub user: Duration,
    /// CPU time in the kernel, as a sum over threads and waited-for descendants.
    pub system: Duration,
    /// The largest peak resident set size of any of these processes in bytes (not their sum).
    ///
    /// The kernel includes the address space that `exec` replaced, which after `vfork` or `posix_spawn` is the
    /// parent's. A value that does not exceed the parent's own peak is therefore only an upper limit.
    pub peak_rss_bytes: u64,
}

#[repr(C)]
#[derive(Default)]
struct TimeValue {
    seconds: i64,
    microseconds: i64,
}

/// `struct rusage`. The tail is reserved by musl and absent in glibc, so either C library may write its own size.
#[repr(C)]
#[derive(Default)]
struct RawUsage {
    user: TimeValue,
    system: TimeValue,
    max_rss_kib: i64,
    rest: [i64; 13],
    reserved: [i64; 16],
}

// std already links the C library, so one function needs no crate.
#[allow(unsafe_code)]
unsafe extern "C" {
    fn wait4(pid: i32, status: *mut i32, options: i32, usage: *mut RawUsage) -> i32;
}

/// Waits until the child `pid` has ended, reaps it and returns its resource usage.
///
/// # Errors
///
/// `InvalidInput` for a `pid` that is not a single process (0, or beyond `i32`); `ECHILD` if it is not a child of
/// this process or was already reaped.
#[allow(unsafe_code)]
pub fn wait_with_usage(pid: u32) -> io::Result<ResourceUsage> {
    let pid = i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 0)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut status = 0;
    let mut usage = RawUsage::default();
    loop {
        // SAFETY: both pointers refer to live, writable values with the correct layout that outlive the call, and the
        // kernel keeps neither.
        let reaped = unsafe { wait4(pid, &raw mut status, 0, &raw mut usage) };
        if reaped == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(ResourceUsage {
        status: ExitStatus::from_raw(status),
        user: duration(&usage.user),
        system: duration(&usage.system),
        peak_rss_bytes: u64::try_from(usage.max_rss_kib).unwrap_or(0) * 1024,
    })
}

/// Makes the program start its own session. It has no terminal on which it, or its children, could ask a question,
/// and no signal of a terminal reaches it. Instead it gets SIGTERM when the thread that starts it ends, for whatever
/// reason.
pub fn without_terminal(command: &mut Command) {
    before_it_runs(command, || rustix::process::setsid().map(drop));
}

/// Makes the program get SIGTERM when the thread that starts it ends, for whatever reason.
pub fn ends_with_this_thread(command: &mut Command) {
    before_it_runs(command, || Ok(()));
}

/// Runs `first` in the child, then ties the child to the thread that starts it. `first` must be async-signal-safe and
/// neither allocate nor lock.
#[allow(unsafe_code)]
fn before_it_runs(command: &mut Command, first: fn() -> rustix::io::Result<()>) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        first()?;
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have ended before the signal was set.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only setsid, prctl and getppid are called, which are async-signal-safe. Nothing
    // is allocated and no lock is taken.
    unsafe { command.pre_exec(prepare) };
}

fn duration(value: &TimeValue) -> Duration {
    let seconds = u64::try_from(value.seconds).unwrap_or(0);
    let microseconds = u64::try_from(value.microseconds).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}

#[cfg(test)]
#[allow(clippy::zombie_processes)] // waited for by what is tested
mod tests {
    use super::*;

    #[test]
    fn exit_status_and_usage_of_a_child() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let usage = wait_with_usage(child.id()).unwrap();
        assert_eq!(usage.status.code(), Some(7));
        assert!(usage.peak_rss_bytes > 100_000);
    }

    #[test]
    fn a_signal_is_not_an_exit_code() {
        let child = Command::new("sh").args(["-c", "kill -9 $$"]).spawn().unwrap();
        let usage = wait_with_usage(child.id()).unwrap();
        assert_eq!(usage.status.code(), None);
        assert_eq!(usage.status.signal(), Some(9));
    }

    #[test]
    fn what_is_no_child_is_an_error() {
        // Process 1 is never a child of this one; 0 would mean "any child of the group".
        assert!(wait_with_usage(1).is_err());
        let error = wait_with_usage(0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(wait_with_usage(u32::MAX).is_err());
    }

    #[test]
    fn a_program_without_terminal_leads_a_session() {
        let mut command = Command::new("sh");
        command.args(["-c", "test \"$(cut -d' ' -f6 /proc/$$/stat)\" = $$"]);
        assert!(!command.status().unwrap().success());
        without_terminal(&mut command);
        assert!(command.status().unwrap().success());
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        for prepare in [without_terminal, ends_with_this_thread] {
            let started = std::thread::spawn(move || {
                let mut command = Command::new("sleep");
                command.arg("600");
                prepare(&mut command);
                command.spawn().unwrap()
            });
            let mut child = started.join().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(15));
        }
    }

    #[test]
    fn a_child_is_reaped_once() {
        let child = Command::new("true").spawn().unwrap();
        assert!(wait_with_usage(child.id()).is_ok());
        assert!(wait_with_usage(child.id()).is_err());
    }
}
