//! The groups and rows of `bench rsync`: several connections to an unmodified rsync daemon.

use super::super::rows::{BenchMethod, Group, Table, TableRow, Topology};
use super::super::sources::BenchSource;
use super::goals::{beside, times};

pub const TABLE: Table = Table {
    key: "rsync",
    heading: "hakobu copy to an rsync daemon, beside rsync and fpsync",
    method: METHOD,
    groups: GROUPS,
};

const METHOD: &str = "\
Both ends are on this machine, joined by an emulated link of RTT 20 ms on which each TCP connection gets 50 Mbit/s in each
direction, whatever the others do. The daemon is rsync's own, unchanged, with a module that can be written to. A time is
the wall clock of the whole command, less the median of three runs of the same command on one byte. The methods of a group
take turns within a round, another one first in each, and a ratio is taken within each round; the figure of a row is the
median of these ratios, with the least and the most in brackets, and above 1 hakobu is the faster.

10 000 files of 100 KiB and 20 of 100 MiB are what connections can divide. One `rsync` has to take them one after the
other at the rate of one connection, more than eight minutes, so it is measured with a fortieth of them, and its time
counts forty times. With one file of 20 % of all bytes nobody can end before that file has gone over one connection,
five times as soon as one `rsync` at best; all of that is measured with a tenth of the bytes.
`fpsync` is given its target, which it does not make, and the connections and parts that did best of those tried, once
each, on all that can be divided: `-n 24 -f 250 -s 25M` took 35.1 s, `-n 32 -f 500 -s 50M` 31.3 s, `-n 48 -f 500 -s 50M`
29.8 s, `-n 64 -f 1000 -s 100M` 28.3 s. hakobu finds out by itself, and keeps access lists, attributes, holes and hard
links as well, which the others are not asked for. parsyncfp2 is no package of Debian's.
";

const HAKOBU: BenchMethod = BenchMethod::ours("hakobu", "hakobu copy $SOURCE/ $URL/");
const RSYNC: BenchMethod =
    BenchMethod::new("one rsync", "rsync", "rsync -a $SOURCE/ $URL/").of(BenchSource::DIVISIBLE_SAMPLE);

const fn fpsync(name: &'static str, line: &'static str) -> BenchMethod {
    BenchMethod::new(name, "fpsync", line)
}

const DIVISIBLE: Group = Group {
    name: "what can be divided",
    topology: Topology::CappedLink,
    source: BenchSource::DIVISIBLE,
    methods: &[
        RSYNC,
        HAKOBU,
        fpsync("fpsync -n 64", "mkdir $TARGET && fpsync -n 64 -f 1000 -s 100M -t $TARGET.run $SOURCE/ $URL/"),
    ],
    rows: &[TableRow {
        key: "divisible",
        title: "10 000 × 100 KiB and 20 × 100 MiB to an rsync daemon, RTT 20 ms, 50 Mbit/s for each connection",
        method: "hakobu",
        goals: &[times("one rsync", 8.0, 12.0), times("fpsync -n 64", 1.1, 1.2)],
    }],
    ..Group::USUAL
};

const WITH_ONE_ALONE: Group = Group {
    name: "with one file of 20 % of all bytes",
    source: BenchSource::WITH_ONE_ALONE,
    methods: &[
        RSYNC,
        HAKOBU,
        fpsync("fpsync -n 64", "mkdir $TARGET && fpsync -n 64 -f 100 -s 10M -t $TARGET.run $SOURCE/ $URL/"),
    ],
    rows: &[TableRow {
        key: "one-alone",
        title: "a tenth of the same, and one file of 20 % of all bytes",
        method: "hakobu",
        goals: &[beside("one rsync"), beside("fpsync -n 64")],
    }],
    ..DIVISIBLE
};

/// All groups.
pub const GROUPS: &[Group] = &[DIVISIBLE, WITH_ONE_ALONE];
