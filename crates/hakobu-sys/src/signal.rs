//! Sets the disposition of signals, which neither the standard library nor rustix supports.

use std::io;

/// The signal for a closed terminal.
const SIGHUP: i32 = 1;
/// SIGHUP, SIGINT, SIGQUIT and SIGTERM.
const ENDING: [i32; 4] = [SIGHUP, 2, 3, 15];
/// The value of the default disposition in the kernel and every C library on Linux.
const SIG_DFL: usize = 0;
/// The value for ignoring a signal in the kernel and every C library on Linux.
const SIG_IGN: usize = 1;
/// The return value on failure.
const SIG_ERR: usize = usize::MAX;

// std already links the C library, so one function needs no crate.
#[allow(unsafe_code)]
unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
}

/// Ignores SIGHUP in this process and in those that it starts from now on, like nohup.
///
/// # Errors
/// System errors.
pub fn ignore_hangup() -> io::Result<()> {
    set(SIGHUP, SIG_IGN)
}

/// Lets SIGHUP, SIGINT, SIGQUIT and SIGTERM end this process and those that it starts from now on, even if they were
/// ignored at the start, as with nohup or a background job of a shell. For tests, which must not depend on that.
///
/// # Errors
/// System errors.
pub fn heed_all() -> io::Result<()> {
    ENDING.iter().try_for_each(|number| set(*number, SIG_DFL))
}

#[allow(unsafe_code)]
fn set(number: i32, handler: usize) -> io::Result<()> {
    // SAFETY: the function has this signature in every C library on Linux, where handlers are pointers or one of a
    // few small numbers. No handler is installed, so nothing runs in a signal's context.
    let before = unsafe { signal(number, handler) };
    if before == SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ignored_here_and_by_children() {
        ignore_hangup().unwrap();
        let child = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
        for status in [std::fs::read("/proc/self/status").unwrap(), child.stdout] {
            let status = String::from_utf8(status).unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
            assert_eq!(u64::from_str_radix(mask.trim(), 16).unwrap() & 1, 1, "{mask}");
        }
        heed_all().unwrap();
        let child = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
        let status = String::from_utf8(child.stdout).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        assert_eq!(u64::from_str_radix(mask.trim(), 16).unwrap() & 0b100_0000_0000_0111, 0, "{mask}");
    }
}
