//! The faults that can happen while hakobu runs. `run.rs` carries them out.
//!
//! To add a fault, add a variant here, and its effect in `act` of `run.rs`. Changes of trees that continue for a while
//! belong in `tree_changes.rs`.

use serde::{Deserialize, Serialize};

use super::hosts::TestHost;

/// The moment of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// This many milliseconds after the start.
    AfterMs(u64),
    /// As soon as a draft exists at the target.
    DraftAppears,
    /// As soon as there are this many bytes more below the target than at the start. Holes and space allocated in
    /// advance do not count.
    BytesArrived(u64),
    /// As soon as there are this many entries more below the target than at the start.
    EntriesArrived(u64),
    /// As soon as there are this many entries fewer below the target than there were before: a removal is under way.
    EntriesLeft(u64),
}

/// A process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Process {
    /// The hakobu that was started.
    Controller,
    /// The ssh clients that it has started.
    Ssh,
    /// The agents on a host.
    Agent(TestHost),
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// `kill -9` of one kind of process.
    Kill {
        /// The processes.
        process: Process,
        /// The moment.
        when: Trigger,
    },
    /// `kill -9` of the controller, its ssh clients and everything on the hosts.
    KillAll {
        /// The moment.
        when: Trigger,
    },
    /// SIGINT to the controller, as from the keyboard.
    Interrupt {
        /// The moment.
        when: Trigger,
    },
    /// SIGSTOP, and later SIGCONT.
    StopFor {
        /// The processes.
        process: Process,
        /// The duration in milliseconds.
        ms: u64,
        /// The moment.
        when: Trigger,
    },
    /// A host is disconnected from the network for a while.
    LinkDown {
        /// The host.
        host: TestHost,
        /// The duration in milliseconds.
        ms: u64,
        /// The moment.
        when: Trigger,
    },
    /// System calls of one kind of process fail without taking place, by means of strace. strace counts the calls of
    /// each thread separately: the n-th call of every thread fails, and a thread that makes fewer calls sees no
    /// failure.
    Inject {
        /// The processes. [`Process::Ssh`] is not supported.
        process: Process,
        /// Names of system calls, separated by commas.
        calls: String,
        /// The error, such as `EIO`.
        errno: String,
        /// The number of the failing call of a thread, from 1. The first few `openat`, `fstat`, `pread64` and `read`
        /// calls of a program are the loader's.
        nth: u32,
        /// True if all later calls fail too.
        from_then_on: bool,
    },
    /// Files and directories of the source are rewritten, truncated, extended, replaced, removed, and swapped for
    /// symbolic links, from a moment on until hakobu ends.
    SourceChanges {
        /// The seed that determines the changes.
        seed: u64,
        /// The first moment.
        when: Trigger,
    },
    /// A directory of the target is renamed and replaced by a symbolic link to a directory elsewhere. Nothing may be
    /// written there.
    TargetDirectorySwapped {
        /// The seed that determines the directory.
        seed: u64,
        /// The moment.
        when: Trigger,
    },
    /// A directory of the target is renamed.
    TargetDirectoryRenamed {
        /// The seed that determines the directory.
        seed: u64,
        /// The moment.
        when: Trigger,
    },
    /// A directory of the target is removed with everything in it.
    TargetDirectoryRemoved {
        /// The seed that determines the directory.
        seed: u64,
        /// The moment.
        when: Trigger,
    },
    /// The target's file system loses power, and every process with it.
    PowerCut {
        /// The moment.
        when: Trigger,
    },
    /// The store refuses requests, or the network loses them or their answers, during the whole run.
    StoreTrouble {
        /// The seed that determines what happens to each request.
        seed: u64,
        /// The percentage of requests that are concerned.
        percent: u64,
    },
    /// The server of the store is killed, and started again.
    StoreKilled {
        /// The milliseconds until then.
        after_ms: u64,
        /// The milliseconds until it is started again.
        down_ms: u64,
    },
    /// Another program changes the objects of the source, whose listings have short pages.
    StoreChanges {
        /// The seed that determines the changes.
        seed: u64,
    },
}

impl Fault {
    /// Returns the moment of the fault, or `None` for faults that the harness arranges before the run.
    #[must_use]
    pub fn trigger(&self) -> Option<Trigger> {
        match self {
            Self::Kill { when, .. }
            | Self::KillAll { when }
            | Self::Interrupt { when }
            | Self::StopFor { when, .. }
            | Self::LinkDown { when, .. }
            | Self::SourceChanges { when, .. }
            | Self::TargetDirectorySwapped { when, .. }
            | Self::TargetDirectoryRenamed { when, .. }
            | Self::TargetDirectoryRemoved { when, .. }
            | Self::PowerCut { when } => Some(*when),
            Self::Inject { .. }
            | Self::StoreTrouble { .. }
            | Self::StoreKilled { .. }
            | Self::StoreChanges { .. } => None,
        }
    }

    /// Returns true for faults that end processes.
    #[must_use]
    pub fn kills(&self) -> bool {
        matches!(self, Self::Kill { .. } | Self::KillAll { .. } | Self::PowerCut { .. })
    }

    /// Returns true for faults that must not affect the result: one of two hosts cannot connect to the other, which then
    /// has to connect.
    #[must_use]
    pub fn is_bypassed(&self) -> bool {
        matches!(self, Self::Inject { calls, .. } if calls == CONNECT)
    }

    /// Returns true for faults that may lose both ends of a transfer at once.
    #[must_use]
    pub fn may_lose_both_ends(&self) -> bool {
        matches!(
            self,
            Self::StopFor { .. } | Self::LinkDown { .. } | Self::Kill { process: Process::Ssh, .. }
        )
    }

    /// Returns a name for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill { process: Process::Controller, .. } => "kill controller",
            Self::Kill { process: Process::Ssh, .. } => "kill ssh",
            Self::Kill { process: Process::Agent(_), .. } => "kill agent",
            Self::KillAll { .. } => "kill all",
            Self::Interrupt { .. } => "interrupt",
            Self::StopFor { .. } => "stop",
            Self::LinkDown { .. } => "link down",
            Self::Inject { .. } => "inject",
            Self::SourceChanges { .. } => "source changes",
            Self::TargetDirectorySwapped { .. } => "target directory swapped",
            Self::TargetDirectoryRenamed { .. } => "target directory renamed",
            Self::TargetDirectoryRemoved { .. } => "target directory removed",
            Self::PowerCut { .. } => "power cut",
            Self::StoreTrouble { .. } => "store trouble",
            Self::StoreKilled { .. } => "store killed",
            Self::StoreChanges { .. } => "store changes",
        }
    }
}

/// The system call that begins a connection. A run between two hosts begins several.
pub const CONNECT: &str = "connect";
/// The errors of [`CONNECT`].
pub const CONNECT_ERRORS: [&str; 2] = ["ETIMEDOUT", "ECONNREFUSED"];

/// System calls worth failing, in groups, and the errors of each group. A question mark before a name makes strace
/// ignore it if the machine's architecture lacks the call.
pub const INJECTED: [(&str, &[&str]); 12] = [
    ("pread64,preadv,preadv2", &["EIO", "EINTR"]),
    ("pwrite64,pwritev,pwritev2,copy_file_range", &["EIO", "ENOSPC", "EDQUOT", "EINTR"]),
    ("ftruncate,fallocate", &["EIO", "ENOSPC"]),
    ("openat,openat2", &["EACCES", "EIO", "EMFILE"]),
    ("getdents64", &["EIO"]),
    ("statx,?newfstatat,?fstat", &["EIO", "EACCES"]),
    ("fgetxattr,getxattr,lgetxattr,flistxattr,listxattr,llistxattr", &["EIO", "EACCES"]),
    ("fsetxattr,setxattr,lsetxattr,fremovexattr,removexattr,lremovexattr", &["EIO", "ENOSPC", "EPERM"]),
    ("fchmod,fchmodat,fchown,fchownat,utimensat", &["EPERM", "EIO", "EROFS"]),
    ("?renameat,renameat2,linkat,symlinkat,mkdirat,mknodat", &["EIO", "ENOSPC", "EDQUOT", "EACCES"]),
    ("unlinkat", &["EIO", "EACCES", "EBUSY"]),
    ("fsync,fdatasync,syncfs", &["EIO", "ENOSPC"]),
];
