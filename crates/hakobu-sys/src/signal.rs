//! Setting what a signal does, which neither the standard library nor rustix can.

use std::io;

/// The end of a terminal.
const SIGHUP: i32 = 1;
/// SIGHUP, SIGINT, SIGQUIT and SIGTERM.
const ENDING: [i32; 4] = [SIGHUP, 2, 3, 15];
/// What leaves a signal to the kernel, as it and every C library on Linux have it.
const SIG_DFL: usize = 0;
/// What ignores a signal, as the kernel and every C library on Linux have it.
const SIG_IGN: usize = 1;
/// What says that it failed.
const SIG_ERR: usize = usize::MAX;

// The C library is linked by std already; no crate is needed for one function.
#[allow(unsafe_code)]
unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
}

/// Ignores SIGHUP in this process and in those that it starts from now on, as nohup does.
///
/// # Errors
/// The system's.
pub fn ignore_hangup() -> io::Result<()> {
    set(SIGHUP, SIG_IGN)
}

/// Lets SIGHUP, SIGINT, SIGQUIT and SIGTERM end this process and those that it starts from now on, whatever it was started
/// with: nohup and a shell's background job have some of them ignored. For tests, which must not depend on that.
///
/// # Errors
/// The system's.
pub fn heed_all() -> io::Result<()> {
    ENDING.iter().try_for_each(|number| set(*number, SIG_DFL))
}

#[allow(unsafe_code)]
fn set(number: i32, handler: usize) -> io::Result<()> {
    // SAFETY: the function has this signature in every C library on Linux, where handlers are
    // pointers or one of a few small numbers. No handler is installed, so nothing runs in a signal's
    // context.
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
