//! For tests: a process with more threads than there are processors, of which the first does nothing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The variable that tells this test to be such a process.
const VARIABLE: &str = "HAKOBU_TEST_SPIN";
/// The minimum total waiting time in nanoseconds.
const ENOUGH_NS: u64 = 200_000_000;
/// The time after which the process exits by itself if nothing ends it.
const LIMIT: Duration = Duration::from_secs(120);

/// The process, which is ended on drop.
pub(super) struct Spinner(Child);

impl Spinner {
    pub fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "bench::spinner::this_process_spins_where_it_is_told_to"]);
        command.env(VARIABLE, "1").stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the number of threads and their waiting time, as `look` returns them, exceed what the first thread
    /// alone could account for.
    pub fn wait_until_all_threads_count(&self, mut look: impl FnMut() -> (u32, u64)) {
        let deadline = Instant::now() + LIMIT / 2;
        loop {
            let (threads, waited_ns) = look();
            let first = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid())).unwrap();
            let first = super::processes::parse_waited(&first).unwrap();
            if threads > 2 && waited_ns > first + ENOUGH_NS {
                return;
            }
            assert!(Instant::now() < deadline, "{threads} threads, {waited_ns} ns, the first {first} ns");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "is for other tests, which start it as a process of its own"]
fn this_process_spins_where_it_is_told_to() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let processors = std::thread::available_parallelism().unwrap().get();
    let deadline = Instant::now() + LIMIT;
    let spin = || while Instant::now() < deadline {};
    std::thread::scope(|scope| {
        for _ in 0..=processors {
            scope.spawn(spin);
        }
    });
}
