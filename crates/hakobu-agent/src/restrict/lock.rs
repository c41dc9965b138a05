//! The lock of the kernel's: landlock. It is taken by the process itself, before it reads anything from its peer, and
//! nothing gives it back.
//!
//! Version 3 of it (Linux 6.2) is the least that will do: before that a file can be cut short however it is locked. From
//! version 4 on connections are forbidden as well, from 5 on commands to devices, from 6 on signals and sockets of other
//! processes; before that only [`guard`](super::guard) forbids what the kernel cannot.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags, open};

use super::terms::Terms;

/// The least version that will do.
const LEAST: ABI = ABI::V3;
const DURING: &str = "locking the agent in";

/// Files of the system that an agent reads: who is called how, what tells this machine from others, how large windows
/// may be, and what this process has used.
const READ: [&str; 5] = [
    "/etc/passwd",
    "/etc/group",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/net/core/wmem_max",
    "/proc/self/status",
];
/// The same for looking up the names of machines.
const READ_FOR_NAMES: [&str; 4] = ["/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/resolv.conf"];
/// Where the content of files goes of which only the digest is wanted.
const NOWHERE: &str = "/dev/null";

/// A place, and what may be done there and beneath it.
type Rule = (OwnedFd, BitFlags<AccessFs>);

/// Locks this process in: nothing but what is beneath `root`. Gives what has to stay open.
///
/// # Errors
/// `Unsupported` when the kernel cannot, or when there are threads already, which would not be locked in.
pub(super) fn lock_process(root: impl AsFd, terms: &Terms) -> Result<Vec<OwnedFd>> {
    refuse_threads()?;
    let rules = rules(root, terms)?;
    lock_thread(&rules, terms.may_connect)?;
    Ok(rules.into_iter().map(|(place, _)| place).collect())
}

/// Locks this process out of every file, and lets it make no connections. What is open stays open.
///
/// # Errors
/// `Unsupported` when the kernel cannot, or when there are threads already.
pub fn lock_out_of_everything() -> Result<()> {
    refuse_threads()?;
    lock_thread(&[], false)
}

/// The lock is each thread's own, and goes to those that it starts later.
fn refuse_threads() -> Result<()> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, DURING, "it is not known to be the only thread here")),
    }
}

fn rules(root: impl AsFd, terms: &Terms) -> Result<Vec<Rule>> {
    let root = root.as_fd().try_clone_to_owned().map_err(|error| Error::io(DURING, &error))?;
    let place = |path: &Path| open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let mut access = AccessFs::ReadFile | AccessFs::ReadDir;
    if !terms.read_only {
        access |= written();
    }
    let mut rules = vec![(root, access)];
    let names = if terms.may_connect { &READ_FOR_NAMES[..] } else { &[] };
    // What of these is not there will not be read.
    let read = READ.iter().chain(names).filter_map(|path| place(Path::new(path)).ok());
    rules.extend(read.map(|file| (file, AccessFs::ReadFile.into())));
    rules.extend(place(Path::new(NOWHERE)).ok().map(|file| (file, AccessFs::ReadFile | AccessFs::WriteFile)));
    Ok(rules)
}

/// What writing takes. Not among it: to run programs, and to make device nodes, through which a disk could be reached
/// from beneath any directory.
fn written() -> BitFlags<AccessFs> {
    AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::MakeSym
        | AccessFs::MakeFifo
        | AccessFs::Refer
}

/// Locks the calling thread, and all that it starts from now on.
fn lock_thread(rules: &[Rule], may_connect: bool) -> Result<()> {
    let status = ruleset(rules, may_connect).map_err(|error| too_old(&error))?;
    // The library may have done less than it was asked to.
    match (status.ruleset, status.no_new_privs) {
        (RulesetStatus::NotEnforced, _) | (_, false) => {
            Err(Error::new(ErrorKind::Unsupported, DURING, "the kernel did not do what it was asked to"))
        }
        _ => Ok(()),
    }
}

fn ruleset(rules: &[Rule], may_connect: bool) -> Result<landlock::RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    if !may_connect {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut created = ruleset.create()?.set_compatibility(CompatLevel::HardRequirement);
    for (place, access) in rules {
        created = created.add_rule(PathBeneath::new(place.as_fd(), *access))?;
    }
    created.restrict_self()
}

fn too_old(error: &RulesetError) -> Error {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let words = format!(
        "it cannot be held to one directory here: that takes landlock as it is in Linux 6.2 and later, switched on \
         (/sys/kernel/security/lsm names it); this is {release} ({error})"
    );
    Error::new(ErrorKind::Unsupported, DURING, words)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{ErrorKind as IoKind, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::{FileExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    /// A directory to be locked into, and one beside it. A file in each.
    struct Ground {
        place: tempfile::TempDir,
    }

    impl Ground {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            for directory in ["in", "out", "in/deeper"] {
                fs::create_dir(place.path().join(directory)).unwrap();
                fs::write(place.path().join(directory).join("file"), "content").unwrap();
            }
            symlink("../out/file", place.path().join("in/link")).unwrap();
            Self { place }
        }

        fn at(&self, path: &str) -> std::path::PathBuf {
            self.place.path().join(path)
        }

        /// Does something on a thread of its own that is locked, and that nothing but the kernel stands in the way of.
        fn locked(&self, read_only: bool, may_connect: bool, does: impl FnOnce(&Self) + Send) {
            let root = self.at("in");
            let terms = Terms { path: root.clone(), read_only, may_connect };
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let rules = rules(File::open(&root).unwrap(), &terms).unwrap();
                    lock_thread(&rules, may_connect).unwrap();
                    // What is locked stays so in threads of it.
                    std::thread::scope(|scope| scope.spawn(|| does(self)).join().unwrap());
                });
                thread.join().unwrap();
            });
        }
    }

    #[track_caller]
    fn denied<T: std::fmt::Debug>(done: std::io::Result<T>) {
        assert_eq!(done.unwrap_err().kind(), IoKind::PermissionDenied);
    }

    fn truncate(path: &Path) -> std::io::Result<()> {
        File::options().write(true).truncate(true).open(path).map(drop)
    }

    #[test]
    fn who_may_read_can_neither_write_nor_look_elsewhere() {
        let ground = Ground::new();
        let open = File::options().write(true).open(ground.at("in/file")).unwrap();
        ground.locked(true, false, |ground| {
            assert_eq!(fs::read(ground.at("in/deeper/file")).unwrap(), b"content");
            assert_eq!(fs::read_dir(ground.at("in")).unwrap().count(), 3);
            for path in ["out/file", "in/../out/file", "in/link", "in/deeper/../../out/file"] {
                denied(fs::read(ground.at(path)));
            }
            denied(fs::read_dir(ground.at("out")).map(drop));
            denied(fs::read("/proc/self/environ"));
            denied(fs::read(Path::new("/proc/self/root").join("etc/hostname")));
            denied(File::options().append(true).open(ground.at("in/file")));
            denied(truncate(&ground.at("in/file")));
            denied(fs::write(ground.at("in/new"), ""));
            denied(fs::create_dir(ground.at("in/new")));
            denied(symlink("x", ground.at("in/new")));
            denied(fs::hard_link(ground.at("in/file"), ground.at("in/new")));
            denied(fs::rename(ground.at("in/file"), ground.at("in/new")));
            denied(fs::remove_file(ground.at("in/file")));
            denied(fs::remove_dir_all(ground.at("in/deeper")));
            denied(UnixListener::bind(ground.at("in/socket")).map(drop));
            denied(Command::new("/bin/true").status());
            File::options().write(true).open("/dev/null").unwrap().write_all(b"x").unwrap();
        });
        // What was open before is not taken away: nothing may be open that should not be.
        open.write_at(b"C", 0).unwrap();
        assert_eq!(fs::read(ground.at("in/file")).unwrap(), b"Content");
    }

    #[test]
    fn who_may_write_can_do_so_in_one_place_only() {
        let ground = Ground::new();
        ground.locked(false, false, |ground| {
            fs::write(ground.at("in/new"), "x").unwrap();
            fs::rename(ground.at("in/new"), ground.at("in/deeper/new")).unwrap();
            fs::hard_link(ground.at("in/deeper/new"), ground.at("in/another")).unwrap();
            truncate(&ground.at("in/another")).unwrap();
            fs::create_dir(ground.at("in/directory")).unwrap();
            fs::remove_dir(ground.at("in/directory")).unwrap();
            symlink("x", ground.at("in/new link")).unwrap();
            fs::remove_file(ground.at("in/another")).unwrap();
            for path in ["out/file", "in/link", "in/../out/file"] {
                denied(File::options().write(true).open(ground.at(path)));
                denied(truncate(&ground.at(path)));
            }
            denied(fs::write(ground.at("out/new"), ""));
            denied(fs::remove_file(ground.at("out/file")));
            // Neither in nor out, by any of its names.
            for (from, to) in [("in/file", "out/new"), ("out/file", "in/stolen")] {
                assert!(fs::rename(ground.at(from), ground.at(to)).is_err());
                assert!(fs::hard_link(ground.at(from), ground.at(to)).is_err());
            }
            denied(Command::new("/bin/true").status());
            let node = |name: &str, kind, number| {
                let made = rustix::fs::mknodat(rustix::fs::CWD, ground.at(name), kind, Mode::RUSR, number);
                made.map_err(std::io::Error::from)
            };
            node("in/fifo", rustix::fs::FileType::Fifo, 0).unwrap();
            // Who is not root may not do so anyway; that looks otherwise.
            let is_root = rustix::process::geteuid().is_root();
            for kind in [rustix::fs::FileType::BlockDevice, rustix::fs::FileType::CharacterDevice] {
                let made = node("in/node", kind, rustix::fs::makedev(1, 3));
                assert_eq!(made.unwrap_err().raw_os_error(), Some(if is_root { 13 } else { 1 }));
            }
        });
        assert_eq!(fs::read(ground.at("out/file")).unwrap(), b"content");
    }

    #[test]
    fn connections_are_made_only_where_they_may_be() {
        let ground = Ground::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        ground.locked(false, true, |_| drop(TcpStream::connect(address).unwrap()));
        ground.locked(false, false, |_| {
            denied(TcpStream::connect(address));
            // Whoever waits for connections does no harm.
            let own = TcpListener::bind("127.0.0.1:0").unwrap();
            denied(TcpStream::connect(own.local_addr().unwrap()));
        });
    }

    #[test]
    fn there_may_be_no_threads_that_would_not_be_locked() {
        // This one is not alone: the test's own runs beside it.
        let ended = std::thread::spawn(refuse_threads).join().unwrap();
        assert_eq!(ended.unwrap_err().kind, ErrorKind::Unsupported);
    }
}
