//! The groups, rows and requirements of `bench ways`: only ssh gets through, or no hakobu may run on the other host.

use super::super::goal_quantity::GoalQuantity;
use super::super::rows::{BenchMethod, Group, Table, TableRow, Topology};
use super::super::sources::BenchSource;
use super::goals::{alone, beside, times};

pub const TABLE: Table = Table {
    key: "ways",
    heading: "Where only ssh gets through, or no agent can run",
    method: METHOD,
    groups: GROUPS,
};

const METHOD: &str = "\
Both ends are on this machine. hakobu has ssh take AES-GCM first where the processor has instructions for it; `dd | ssh`
and the two `scp` are told to do the same, all others use their default. A time is the wall clock of the whole command,
from its start until both ends have ended, less the median of three runs of the same command on one byte (login and
start; for `iperf3` `-n 1`). The methods of a group take turns within a round, another one first in each, and a ratio is
taken within each round; the figure of a row is the median of these ratios, with the least and the most in brackets, and
above 1 hakobu is the faster. Over SFTP hakobu brings each file to stable storage, which the others do not; in memory
that costs little. `scp` uses SFTP as well, as it does by default since OpenSSH 9.0.
";

const SFTP_FILE: BenchMethod =
    BenchMethod::ours("hakobu", "hakobu copy --transport sftp $SOURCE $HOST:$TARGET");
const SFTP_TREE: BenchMethod =
    BenchMethod::ours("hakobu", "hakobu copy --transport sftp $SOURCE/ $HOST:$TARGET/");
const SSH_FILE: BenchMethod =
    BenchMethod::ours("hakobu", "hakobu copy --transport ssh $SOURCE $HOST:$TARGET");
const SCP: BenchMethod = BenchMethod::new("scp", "scp", "scp -q $SOURCE $HOST:$TARGET");
const SCP_TREE: BenchMethod = BenchMethod::new("scp -r", "scp", "scp -q -r $SOURCE $HOST:$TARGET");
/// Both hosts are this machine, so the target directory is created without a login.
const SCP_PARALLEL: BenchMethod = BenchMethod::new(
    "two scp",
    "scp",
    "mkdir $TARGET; for file in $SOURCE/*; do scp -q -c aes128-gcm@openssh.com $file $HOST:$TARGET/ & done; wait",
);
const SFTP_PUT: BenchMethod = BenchMethod::new(
    "sftp put -r",
    "sftp",
    "echo \"put -r $SOURCE $TARGET\" | sftp -q -b - $HOST >/dev/null",
);
const DD_SSH: BenchMethod = BenchMethod::new(
    "dd | ssh | dd",
    "ssh",
    "dd if=$SOURCE bs=64k status=none | ssh -c aes128-gcm@openssh.com $HOST \"dd of=$TARGET bs=64k status=none\"",
);
const IPERF_8: BenchMethod =
    BenchMethod::new("iperf3 -P 8", "iperf3", "iperf3 -c $ADDRESS -p $PORT -P 8 -n $BYTES")
        .remote("exec iperf3 -s -1 -p $PORT")
        .discarding();

const SFTP_LARGE: Group = Group {
    name: "sftp, two large files",
    source: BenchSource::TWO_LARGE,
    methods: &[SCP_TREE, SFTP_TREE, SCP_PARALLEL],
    rows: &[TableRow {
        key: "sftp-large",
        title: "SFTP: 2 GiB in two files, to the ssh host's tmpfs",
        method: "hakobu",
        goals: &[times("two scp", 1.1, 1.5), times("scp -r", 1.3, 1.5)],
    }],
    ..Group::USUAL
};

const SSH_LARGE: Group = Group {
    name: "agent through ssh",
    source: BenchSource::MIDDLE,
    methods: &[DD_SSH, SSH_FILE, BenchMethod::ours("hakobu, sftp", SFTP_FILE.local)],
    rows: &[TableRow {
        key: "ssh-large",
        title: "data through ssh: 2 GiB to a file on the ssh host's tmpfs",
        method: "hakobu",
        goals: &[times("dd | ssh | dd", 0.9, 1.0), beside("hakobu, sftp")],
    }],
    ..SFTP_LARGE
};

const SFTP_SMALL: Group = Group {
    name: "sftp, small files",
    source: BenchSource::LINK_TREE,
    methods: &[SCP_TREE, SFTP_TREE, SFTP_PUT],
    rows: &[TableRow {
        key: "sftp-small",
        title: "SFTP: 10 000 × 4 KiB",
        method: "hakobu",
        goals: &[times("scp -r", 4.0, 6.0), times("sftp put -r", 4.0, 6.0)],
    }],
    ..SFTP_LARGE
};

const SFTP_LINK_SMALL: Group = Group {
    name: "sftp, long link, small files",
    topology: Topology::LongLink,
    source: BenchSource::LINK_TREE,
    methods: &[SFTP_TREE],
    rows: &[TableRow {
        key: "sftp-link-small",
        title: "SFTP, RTT 100 ms: 10 000 × 4 KiB, after login",
        method: "hakobu",
        goals: &[alone(GoalQuantity::Seconds, 20.0, 5.0)],
    }],
    ..SFTP_LARGE
};

/// `scp` takes four round trips for each file, so it is measured with few files.
const SFTP_LINK_FEW: Group = Group {
    name: "sftp, long link, a sample",
    source: BenchSource::LINK_SAMPLE,
    methods: &[SCP_TREE, SFTP_TREE],
    rows: &[TableRow {
        key: "sftp-link-few",
        title: "SFTP, RTT 100 ms: 200 × 4 KiB",
        method: "hakobu",
        goals: &[times("scp -r", 20.0, 40.0)],
    }],
    ..SFTP_LINK_SMALL
};

const LINK_FILE: Group = Group {
    name: "long link, one file",
    source: BenchSource::LINK_FILE,
    methods: &[SCP, SFTP_FILE, BenchMethod::ours("hakobu, ssh", SSH_FILE.local), DD_SSH, IPERF_8],
    rows: &[
        TableRow {
            key: "sftp-link",
            title: "SFTP, RTT 100 ms, 1 Gbit/s: one 500 MB file",
            method: "hakobu",
            goals: &[times("scp", 4.0, 6.0), beside("iperf3 -P 8")],
        },
        TableRow {
            key: "ssh-link",
            title: "the same through ssh with an agent",
            method: "hakobu, ssh",
            goals: &[times("dd | ssh | dd", 4.0, 6.0), beside("iperf3 -P 8")],
        },
    ],
    ..SFTP_LINK_SMALL
};

/// All groups. Groups with the same source are adjacent.
pub const GROUPS: &[Group] = &[SFTP_LARGE, SSH_LARGE, SFTP_SMALL, SFTP_LINK_SMALL, SFTP_LINK_FEW, LINK_FILE];
