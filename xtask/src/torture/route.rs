//! The hosts and the transport of a run: one machine, or a network with an agent, through ssh, or over SFTP.
//!
//! To add a transport or an endpoint, add a variant of [`Route`] and to [`Route::ALL`], the form of its locations in
//! [`Route::locations`], its options in [`Route::options`], and what it cannot keep in [`Route::limit`] (as a target)
//! and [`Route::as_seen`] (as a source).

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::abilities::Abilities;
use super::environment::hosts::{TestHost, TestHosts};
use super::model::Time;
use super::step::{Shape, Step, StepVerb};
use super::walk::Snapshot;

/// The hosts and the transport of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Route {
    /// Both sides on this machine.
    Local,
    /// To host a.
    Push,
    /// From host a.
    Pull,
    /// From host a to host b.
    HostToHost,
    /// To host a, with data through ssh.
    PushThroughSsh,
    /// From host a, with data through ssh.
    PullThroughSsh,
    /// To host a, unencrypted.
    PushInPlain,
    /// To host a, with everything compressed.
    PushCompressed,
    /// From host a, with everything compressed.
    PullCompressed,
    /// To host a, over SFTP.
    PushSftp,
    /// From host a, over SFTP.
    PullSftp,
}

impl Route {
    /// All but [`Self::Local`].
    pub const ALL: &[Self] = &[
        Self::Push,
        Self::Pull,
        Self::HostToHost,
        Self::PushThroughSsh,
        Self::PullThroughSsh,
        Self::PushInPlain,
        Self::PushCompressed,
        Self::PullCompressed,
        Self::PushSftp,
        Self::PullSftp,
    ];

    /// Returns the hosts of source and target; `None` is this machine.
    fn hosts(self) -> (Option<TestHost>, Option<TestHost>) {
        match self {
            Self::Local => (None, None),
            Self::Pull | Self::PullThroughSsh | Self::PullCompressed | Self::PullSftp => {
                (Some(TestHost::A), None)
            }
            Self::HostToHost => (Some(TestHost::A), Some(TestHost::B)),
            _ => (None, Some(TestHost::A)),
        }
    }

    /// Returns true if another host takes part.
    pub fn is_remote(self) -> bool {
        self != Self::Local
    }

    /// Returns the other hosts that take part.
    pub fn remote_hosts(self) -> impl Iterator<Item = TestHost> {
        let (source, target) = self.hosts();
        source.into_iter().chain(target)
    }

    /// Returns true for SFTP.
    pub fn is_sftp(self) -> bool {
        matches!(self, Self::PushSftp | Self::PullSftp)
    }

    /// Returns the options that select the hosts and the transport.
    pub fn options(self, verb: StepVerb, hosts: Option<&TestHosts>) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if verb == StepVerb::Digest {
            return words;
        }
        words.extend(hosts.map(TestHosts::ssh_arguments).unwrap_or_default());
        let word = match self {
            Self::PushThroughSsh | Self::PullThroughSsh => "--transport=ssh",
            Self::PushInPlain => "--cipher=none",
            // A verification sends only digests, so nothing is compressed.
            Self::PushCompressed | Self::PullCompressed if verb == StepVerb::Verify => "--transport=agent",
            Self::PushCompressed | Self::PullCompressed => "--compress=zstd",
            Self::PushSftp | Self::PullSftp => "--transport=sftp",
            Self::Push | Self::Pull | Self::HostToHost => "--transport=agent",
            Self::Local => return words,
        };
        words.push(word.into());
        if self.hosts().0.is_some() {
            // Another machine may set privileges only if that is allowed explicitly.
            words.push("--allow=setuid,devices".into());
        }
        words
    }

    /// Returns the locations of a source and a target as they are typed.
    pub fn locations(self, hosts: Option<&TestHosts>, source: OsString, target: OsString) -> [OsString; 2] {
        let on = |host: Option<TestHost>, path: OsString| match (host, hosts) {
            // A trailing slash has a meaning, and `Path` keeps it.
            (Some(host), Some(hosts)) if self.is_sftp() => hosts.sftp_location(host, Path::new(&path)),
            (Some(host), Some(hosts)) => hosts.location(host, Path::new(&path)),
            _ => path,
        };
        let (from, to) = self.hosts();
        [on(from, source), on(to, target)]
    }

    /// Removes from a step what the transport refuses, as documented.
    pub fn fit(self, step: &mut Step) {
        if self.is_sftp() {
            step.in_place = false;
            if step.check.as_deref() == Some("medium") {
                step.check = None;
            }
            // `sync` changes a single file in place, which needs an agent.
            if matches!(step.shape, Shape::OneFile(_)) && step.verb == StepVerb::Sync {
                step.verb = StepVerb::Copy;
                step.whole_file = false;
            }
        }
    }

    /// Reduces a target's capabilities to what the transport supports.
    pub fn limit(self, able: Abilities) -> Abilities {
        let mut able = able;
        if self == Self::PushSftp {
            able.user_xattrs = false;
            able.trusted_xattrs = false;
            able.acls = false;
            able.special_files = false;
            able.tells_inodes = false;
            able.cuts_times = true;
            able.mtime_step_ns = able.mtime_step_ns.max(1_000_000_000);
            let (first, last) = able.mtime_range_s;
            able.mtime_range_s = (first.max(0), last.min(i64::from(u32::MAX)));
        }
        if self == Self::PullSftp {
            able.tells_source_inodes = false;
            able.user_xattrs = false;
            able.trusted_xattrs = false;
            able.acls = false;
            able.special_files = false;
        }
        able
    }

    /// Returns the source as the transport shows it.
    pub fn as_seen(self, source: Snapshot) -> Snapshot {
        let mut source = source;
        if self == Self::PullSftp {
            for (number, entry) in source.values_mut().enumerate() {
                entry.xattrs.clear();
                // OpenSSH's server truncates times to 32 bits, which cannot be noticed.
                entry.mtime = Time { s: i64::from(entry.mtime.s as u32), ns: 0 };
                // Each name is a file of its own.
                entry.inode = (0, number as u64);
                entry.links = 1;
            }
        }
        source
    }

    /// Returns a name for counting.
    pub fn name(self) -> String {
        format!("route {self:?}").to_lowercase()
    }
}

impl Abilities {
    /// Returns true if both sides tell which names are one file, at any time. A store does in ways of its own.
    pub fn tells_all_names(&self) -> bool {
        self.tells_inodes
            && self.tells_inodes_for_good
            && self.tells_source_inodes
            && self.inode_numbers == u64::MAX
            && self.keys.iter().all(Option::is_none)
    }
}
