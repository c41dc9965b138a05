//! What may go wrong while hakobu runs. `run.rs` makes it so.
//!
//! To add a fault: a variant here, and what it does in `act` of `run.rs`; a change of trees that goes on for a while belongs into
//! `meddling.rs`.

use serde::{Deserialize, Serialize};

use super::hosts::Host;

/// When a fault takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// So many milliseconds after the start.
    AfterMs(u64),
    /// As soon as a draft is seen below the target.
    DraftAppears,
    /// As soon as there are so many bytes more below the target than at the start. Holes are none, and what is allocated
    /// ahead is none.
    BytesArrived(u64),
    /// As soon as there are so many entries more below the target than at the start.
    EntriesArrived(u64),
}

/// A process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Process {
    /// The hakobu that was started.
    Controller,
    /// The ssh clients that it has started.
    Ssh,
    /// The agents on a host.
    Agent(Host),
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// `kill -9` of one of them.
    Kill {
        /// Which.
        process: Process,
        /// When.
        when: Trigger,
    },
    /// `kill -9` of the controller, its ssh clients and everything on the hosts.
    KillAll {
        /// When.
        when: Trigger,
    },
    /// SIGINT to the controller, as from the keyboard.
    Interrupt {
        /// When.
        when: Trigger,
    },
    /// SIGSTOP, and later SIGCONT.
    StopFor {
        /// Which.
        process: Process,
        /// For how long.
        ms: u64,
        /// When.
        when: Trigger,
    },
    /// A host is off the network for a while.
    LinkDown {
        /// Which.
        host: Host,
        /// For how long.
        ms: u64,
        /// When.
        when: Trigger,
    },
    /// System calls of one of the processes fail, by strace. The calls do not take place. strace counts for each thread by itself, so that
    /// the n-th call of any thread fails, and a thread that makes fewer calls sees none fail.
    Inject {
        /// Into which; [`Process::Ssh`] is not possible.
        process: Process,
        /// Names of system calls, with commas between.
        calls: String,
        /// As `EIO`.
        errno: String,
        /// Which call of a thread, from 1 on. The first few of a program's `openat`, `fstat`, `pread64` and `read` are the loader's.
        nth: u32,
        /// The later ones too.
        from_then_on: bool,
    },
    /// Files and directories of the source are rewritten, cut, extended, replaced, removed, and swapped for links, from a moment on until
    /// hakobu ends.
    SourceChanges {
        /// Decides what happens.
        seed: u64,
        /// When it begins.
        when: Trigger,
    },
    /// A directory of the target is renamed, and a link to a directory elsewhere put in its place. Nothing may arrive there.
    TargetDirectorySwapped {
        /// Decides which.
        seed: u64,
        /// When.
        when: Trigger,
    },
    /// A directory of the target gets another name.
    TargetDirectoryRenamed {
        /// Decides which.
        seed: u64,
        /// When.
        when: Trigger,
    },
    /// A directory of the target is removed with all that is in it.
    TargetDirectoryRemoved {
        /// Decides which.
        seed: u64,
        /// When.
        when: Trigger,
    },
    /// The target's file system loses power, and every process with it.
    PowerCut {
        /// When.
        when: Trigger,
    },
}

impl Fault {
    /// When it takes place; those that strace makes have no such moment.
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
            Self::Inject { .. } => None,
        }
    }

    /// True for those that end processes.
    #[must_use]
    pub fn kills(&self) -> bool {
        matches!(self, Self::Kill { .. } | Self::KillAll { .. } | Self::PowerCut { .. })
    }

    /// True for those that nobody may notice in the end: the run goes on, or is taken up again by itself.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::StopFor { .. } | Self::LinkDown { .. } => true,
            Self::Kill { process, .. } => *process != Process::Controller,
            Self::Inject { errno, .. } => errno == "EINTR",
            _ => false,
        }
    }

    /// True for those by which both ends of a transfer may be lost at once.
    #[must_use]
    pub fn may_lose_both_ends(&self) -> bool {
        matches!(
            self,
            Self::StopFor { .. } | Self::LinkDown { .. } | Self::Kill { process: Process::Ssh, .. }
        )
    }

    /// A word for counting.
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
        }
    }
}

/// System calls that are worth failing, in groups, and the errors that each group is given. A question mark before a name lets strace pass
/// over those that the machine's architecture lacks.
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
