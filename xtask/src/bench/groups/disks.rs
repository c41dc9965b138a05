//! The groups, rows and requirements of `bench disks`.

use super::super::goal_quantity::GoalQuantity;
use super::super::rows::{BenchMethod, Group, Table, TableRow, Target};
use super::super::sources::BenchSource;
use super::goals::{against, alone, beside, times};

pub const TABLE: Table = Table {
    key: "disks",
    heading: "hakobu and disks beside the tools people use today",
    method: METHOD,
    groups: GROUPS,
};

const METHOD: &str = "\
Both ends are on this machine, and disks are loop devices on files in memory where nothing else is said. A time is the
wall clock of the whole command, from its start until both ends have ended, less the median of three runs of the same
command on a disk of one chunk, 4 MiB. Everybody flushes what was written. The methods of a group take turns within a
round, another one first in each, and a ratio is taken within each round; the figure of a row is the median of these ratios, with the least and
the most in brackets. Pipelines of `dd` have the block size that was fastest in a round before, on an eighth of the
data, page cache passed by or not at each end. Before each run a target is full of other bytes, all of its memory
taken, or, where a row says so, blank, or, where only changes travel, equal to the source but for one piece of 256 KiB in
a hundred; where a run takes memory as it writes, as much is warmed before it. hakobu is installed at both ends. Before the rounds, hakobu's result is compared with the source and so is the digest in its
report; after the first round, the others' result; that all data crossed the network is checked in every round by the
interface's counters. Bytes read are those of the block devices' own counters. A run that is killed gets SIGKILL when
half of the source has been read, and what the same command then leaves is compared each time. Memory is the kernel's
`VmHWM` at the end of each process.
";

const PUSH: BenchMethod = BenchMethod::ours("hakobu", "hakobu copy $SOURCE $HOST:$TARGET");

const DISKS: Group = Group {
    name: "disk to disk",
    source: BenchSource::DISK,
    target: Target::Disk,
    // Methods that are compared with each other are adjacent.
    methods: &[
        BenchMethod::new(
            "dd | ssh | dd",
            "ssh",
            "dd if=$SOURCE bs={bs}{in} status=none | ssh -c aes256-gcm@openssh.com $HOST \
             \"dd of=$TARGET bs={bs} iflag=fullblock{out} conv=fsync status=none\"",
        )
        .tuned(),
        PUSH,
        BenchMethod::ours("hakobu, verifying", "hakobu copy --verify medium $SOURCE $HOST:$TARGET"),
        BenchMethod::ours("hakobu plain", "hakobu copy --cipher none $SOURCE $HOST:$TARGET"),
        BenchMethod::new(
            "dd | nc | dd",
            "nc",
            "dd if=$SOURCE bs={bs}{in} status=none | nc -N $ADDRESS $PORT",
        )
        .remote("nc -l $PORT | dd of=$TARGET bs={bs} iflag=fullblock{out} conv=fsync status=none")
        .tuned(),
        BenchMethod::ours("hakobu, killed and again", "hakobu copy $SOURCE $HOST:$TARGET").killed(),
        BenchMethod::ours("hakobu pull", "hakobu copy $HOST:$SOURCE $TARGET").extra(),
        BenchMethod::ours("hakobu, 1 lane", "hakobu copy --lanes 1 $SOURCE $HOST:$TARGET").extra(),
        BenchMethod::ours("hakobu, 4 lanes", "hakobu copy --lanes 4 $SOURCE $HOST:$TARGET").extra(),
    ],
    rows: &[
        TableRow {
            key: "push",
            title: "4 GiB random disk → ssh host's disk, encrypted",
            method: "hakobu",
            goals: &[times("dd | ssh | dd", 1.7, 2.1)],
        },
        TableRow {
            key: "plain",
            title: "the same with --cipher none",
            method: "hakobu plain",
            goals: &[times("dd | nc | dd", 1.2, 1.5)],
        },
        TableRow {
            key: "medium",
            title: "the same as the first with --verify medium: times as long",
            method: "hakobu, verifying",
            goals: &[against(GoalQuantity::TimesLonger, "hakobu", 1.5, 1.15)],
        },
        TableRow {
            key: "resume",
            title: "killed half way, then the same command: work done again",
            method: "hakobu, killed and again",
            goals: &[alone(GoalQuantity::SecondsRepeated, 2.0, 1.0)],
        },
        TableRow {
            key: "variants",
            title: "4 GiB disk, other settings",
            method: "hakobu",
            goals: &[beside("hakobu pull"), beside("hakobu, 1 lane"), beside("hakobu, 4 lanes")],
        },
    ],
    ..Group::USUAL
};

const DELTA: Group = Group {
    name: "disk to a disk that differs a little",
    source: BenchSource::DISK,
    target: Target::Changed,
    travels: false,
    methods: &[
        BenchMethod::ours("hakobu sync", "hakobu sync --confirm $ID $SOURCE $HOST:$TARGET"),
        BenchMethod::new(
            "rsync",
            "rsync",
            "rsync --ignore-times --inplace --write-devices --copy-devices --fsync -e 'ssh -c aes128-gcm@openssh.com' $SOURCE $HOST:$TARGET",
        ),
        BenchMethod::new("blocksync", "blocksync", "blocksync $SOURCE $HOST $TARGET"),
        BenchMethod::new(
            "bdsync",
            "bdsync",
            "bdsync \"ssh $HOST bdsync --server\" $SOURCE $TARGET | ssh $HOST \"bdsync --patch=$TARGET\"",
        ),
        BenchMethod::new("diskrsync", "diskrsync", "diskrsync --no-compress $SOURCE $HOST:$TARGET"),
    ],
    rows: &[
        TableRow {
            key: "delta",
            title: "4 GiB disk, 1 % of its pieces of 256 KiB changed",
            method: "hakobu sync",
            goals: &[
                times("rsync", 3.0, 6.0),
                times("blocksync", 3.0, 6.0),
                times("bdsync", 3.0, 6.0),
                times("diskrsync", 3.0, 6.0),
            ],
        },
        TableRow {
            key: "delta-read",
            title: "bytes read for that on either side, for each byte there is",
            method: "hakobu sync",
            goals: &[alone(GoalQuantity::BytesRead, 1.01, 1.01)],
        },
    ],
    ..Group::USUAL
};

const ZEROS_METHODS: &[BenchMethod] =
    &[PUSH, BenchMethod::ours("hakobu, zeros", PUSH.local).of(BenchSource::ZEROS_DISK)];

const ZEROS: Group = Group {
    name: "disk with zeros",
    source: BenchSource::DISK,
    target: Target::Blank,
    methods: ZEROS_METHODS,
    rows: &[TableRow {
        key: "zeros",
        title: "4 GiB disk of which 90 % are zeros, against a full one, onto a blank disk",
        method: "hakobu, zeros",
        goals: &[times("hakobu", 2.0, 2.0)],
    }],
    ..Group::USUAL
};

const ZEROS_OVER_DATA: Group = Group {
    name: "disk with zeros, onto a disk that is full",
    target: Target::Disk,
    rows: &[TableRow {
        key: "zeros-over-data",
        title: "the same onto a disk that is full of something else",
        method: "hakobu, zeros",
        goals: &[beside("hakobu")],
    }],
    ..ZEROS
};

const HOLES: Group = Group {
    name: "image with holes",
    source: BenchSource::IMAGE,
    methods: &[
        PUSH,
        BenchMethod::ours("hakobu, holes", PUSH.local).of(BenchSource::HOLES_IMAGE),
        BenchMethod::ours("hakobu, holes hashed", "hakobu copy --verify wire $SOURCE $HOST:$TARGET")
            .of(BenchSource::HOLES_IMAGE)
            .extra(),
    ],
    rows: &[TableRow {
        key: "zeros-image",
        title: "4 GiB image of which 90 % is a hole, against a full one",
        method: "hakobu, holes",
        goals: &[
            times("hakobu", 4.0, 4.0),
            against(GoalQuantity::TimesFewerBytes, "hakobu", 8.0, 8.0),
            beside("hakobu, holes hashed"),
        ],
    }],
    ..Group::USUAL
};

const SPARSE: Group = Group {
    name: "huge image",
    source: BenchSource::SPARSE_IMAGE,
    methods: &[PUSH],
    rows: &[TableRow {
        key: "sparse",
        title: "2 TiB image of which 1 GiB is used, to the ssh host's tmpfs",
        method: "hakobu",
        goals: &[alone(GoalQuantity::Seconds, 60.0, 60.0)],
    }],
    ..Group::USUAL
};

const OWN_DISK: Group = Group {
    name: "disk to disk, on the machine's own",
    source: BenchSource::OWN_DISK,
    target: Target::Disk,
    travels: false,
    methods: &[
        BenchMethod::new(
            "fio",
            "fio",
            "fio --output=/dev/null --ioengine=libaio --direct=1 --bs=1M --iodepth=2 --size=$BYTES --end_fsync=1 \
             --name=read --filename=$SOURCE --rw=read --name=write --filename=$TARGET --rw=write",
        )
        .discarding(),
        BenchMethod::ours("hakobu", "hakobu copy --confirm $ID $SOURCE $TARGET"),
        BenchMethod::new("dd", "dd", "dd if=$SOURCE of=$TARGET bs=1M iflag=direct oflag=direct conv=fsync status=none"),
    ],
    rows: &[TableRow {
        key: "own-disk",
        title: "4 GiB disk to disk, both on the machine's own",
        method: "hakobu",
        goals: &[times("fio", 0.9, 0.9), beside("dd")],
    }],
    ..Group::USUAL
};

const MAKE_DATA: Group = Group {
    name: "test data",
    source: BenchSource::MADE,
    travels: false,
    methods: &[
        BenchMethod::ours("make-data", "hakobu make-data disk $TARGET --size $BYTES"),
        BenchMethod::new(
            "dd if=/dev/urandom",
            "dd",
            "dd if=/dev/urandom of=$TARGET bs=1M count=$BYTES iflag=count_bytes status=none",
        ),
    ],
    rows: &[TableRow {
        key: "make-data",
        title: "4 GiB of test data, to tmpfs",
        method: "make-data",
        goals: &[times("dd if=/dev/urandom", 3.0, 3.0)],
    }],
    ..Group::USUAL
};

/// All groups. Groups with the same source are adjacent, since sources are created on first use and removed after their
/// last group.
pub const GROUPS: &[Group] = &[DISKS, DELTA, ZEROS, ZEROS_OVER_DATA, HOLES, SPARSE, OWN_DISK, MAKE_DATA];
