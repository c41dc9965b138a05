//! Restricts the process with the kernel's Landlock. The process applies it before it reads anything from its peer, and
//! it cannot be undone.
//!
//! Version 3 (Linux 6.2) is required: before that, a file can be truncated in spite of the rules. From version 4 on
//! connections are restricted as well, from 5 on ioctls of devices, from 6 on signals and sockets of other processes.
//! With older versions, only [`guard`](super::guard) forbids what the kernel cannot.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags, open};

use super::login_restrictions::LoginRestrictions;

/// The oldest version that is accepted.
const LEAST: ABI = ABI::V3;
const DURING: &str = "locking the agent in";

/// System files that an agent reads: the names of users and groups, the host's identity, the limit of socket buffers,
/// and this process's resource usage.
const READ: [&str; 5] = [
    "/etc/passwd",
    "/etc/group",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/net/core/wmem_max",
    "/proc/self/status",
];
/// Further files for looking up host names.
const READ_FOR_NAMES: [&str; 4] = ["/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/resolv.conf"];
/// The target for digests, which discards content.
const NOWHERE: &str = "/dev/null";

/// An open path, and the accesses allowed to it and beneath it.
type LandlockRule = (OwnedFd, BitFlags<AccessFs>);

/// Restricts this process to `root` and the few system files above. Returns the descriptors that must stay open.
///
/// # Errors
/// `Unsupported` if the kernel cannot do it, or if there are other threads, which would not be restricted.
pub(super) fn lock_process(root: impl AsFd, terms: &LoginRestrictions) -> Result<Vec<OwnedFd>> {
    refuse_threads()?;
    let rules = rules(root, terms)?;
    lock_thread(&rules, terms.may_connect)?;
    Ok(rules.into_iter().map(|(place, _)| place).collect())
}

/// Denies this process access to every file, and connections. Open descriptors remain usable.
///
/// # Errors
/// `Unsupported` if the kernel cannot do it, or if there are other threads.
pub fn lock_out_of_everything() -> Result<()> {
    refuse_threads()?;
    lock_thread(&[], false)
}

/// Refuses if there are other threads: the restriction applies to one thread and those that it starts later.
fn refuse_threads() -> Result<()> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, DURING, "it is not known to be the only thread here")),
    }
}

fn rules(root: impl AsFd, terms: &LoginRestrictions) -> Result<Vec<LandlockRule>> {
    let root = root.as_fd().try_clone_to_owned().map_err(|error| Error::io(DURING, &error))?;
    let place = |path: &Path| open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let mut access = AccessFs::ReadFile | AccessFs::ReadDir;
    if !terms.read_only {
        access |= written();
    }
    let mut rules = vec![(root, access)];
    let names = if terms.may_connect { &READ_FOR_NAMES[..] } else { &[] };
    // A missing file will not be read either.
    let read = READ.iter().chain(names).filter_map(|path| place(Path::new(path)).ok());
    rules.extend(read.map(|file| (file, AccessFs::ReadFile.into())));
    rules.extend(place(Path::new(NOWHERE)).ok().map(|file| (file, AccessFs::ReadFile | AccessFs::WriteFile)));
    Ok(rules)
}

/// Returns the accesses for writing. They do not include running programs and creating device nodes, through which a
/// disk could be reached from any directory.
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

/// Restricts the calling thread, and all threads and processes that it starts from now on.
fn lock_thread(rules: &[LandlockRule], may_connect: bool) -> Result<()> {
    let status = ruleset(rules, may_connect).map_err(|error| too_old(&error))?;
    // The library may have applied less than requested.
    match (status.ruleset, status.no_new_privs) {
        (RulesetStatus::NotEnforced, _) | (_, false) => {
            Err(Error::new(ErrorKind::Unsupported, DURING, "the kernel did not do what it was asked to"))
        }
        _ => Ok(()),
    }
}

fn ruleset(rules: &[LandlockRule], may_connect: bool) -> Result<landlock::RestrictionStatus, RulesetError> {
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
        "it cannot be limited to one directory here: that needs landlock of Linux 6.2 or later, enabled \
         (/sys/kernel/security/lsm lists it); this is {release} ({error})"
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

    /// A directory to be restricted to, and one next to it, with a file in each.
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

        /// Runs a function on a restricted thread, with no other protection than the kernel's.
        fn locked(&self, read_only: bool, may_connect: bool, does: impl FnOnce(&Self) + Send) {
            let root = self.at("in");
            let terms = LoginRestrictions { path: root.clone(), read_only, may_connect };
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let rules = rules(File::open(&root).unwrap(), &terms).unwrap();
                    lock_thread(&rules, may_connect).unwrap();
                    // The restriction is inherited by new threads.
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
        // Open files remain accessible, so nothing must be open that should not be.
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
            // A file cannot be moved or linked in or out, in either direction.
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
            // Unprivileged users may not create device nodes anyway, and get a different error.
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
            // Listening does no harm.
            let own = TcpListener::bind("127.0.0.1:0").unwrap();
            denied(TcpStream::connect(own.local_addr().unwrap()));
        });
    }

    #[test]
    fn there_may_be_no_threads_that_would_not_be_locked() {
        // This thread is not alone: the test's own thread runs too.
        let ended = std::thread::spawn(refuse_threads).join().unwrap();
        assert_eq!(ended.unwrap_err().kind, ErrorKind::Unsupported);
    }
}
