//! Chooses the rows of a bench.

use std::collections::BTreeSet;

use serde::Serialize;

use super::case::{
    BASELINE, BLOCK_BYTES, BenchCase, Compressor, DataDirection, DataKind, EndKinds, Initiator, Method,
};
use super::result::GroupKey;
use super::tools::Tools;

/// hakobu's own ciphers, by the names of `--cipher`.
const OWN_CIPHERS: [&str; 3] = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"];
/// The block sizes to test, in bytes.
const BLOCKS: [u64; 6] = [512, 4 << 10, 32 << 10, 64 << 10, 512 << 10, 4 << 20];
/// The block sizes that a short bench tests.
const FEW_BLOCKS: [u64; 2] = [512, 4 << 20];
/// The ssh ciphers that a short bench tests.
const FEW_CIPHERS: [&str; 4] =
    ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr", "chacha20-poly1305@openssh.com"];

/// Describes the rows that need a login from the host to this machine. Methods with their own connection do not need
/// one.
const BY_SSH_THERE: &str = "started there, by ssh (hakobu, dd | ssh, scp)";
/// The maximum number of rows that are listed for a missing program.
const LABELS_MAX: usize = 6;

/// The facts that the plan depends on.
#[derive(Debug, Clone, Default)]
pub struct PlanFacts {
    /// True if there is another machine.
    pub has_host: bool,
    /// True for the full set of rows, false for a subset.
    pub full: bool,
    /// The installed tools.
    pub tools: Tools,
    /// The reason why the host cannot log in to this machine; `None` if it can.
    pub no_way_back: Option<String>,
    /// The reason why a port on the host cannot be reached; `None` if it can.
    pub no_port: Option<String>,
    /// The reason why the host cannot reach a port on this machine; `None` if it can.
    pub no_near_port: Option<String>,
    /// Ends without room or a suitable directory, each with the reason.
    pub no_ends: Vec<(EndKinds, String)>,
}

/// Something that is not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The measurement, row or tool.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// Returns the rows, the most important first, and what is left out.
#[must_use]
pub fn plan(ground: &PlanFacts) -> (Vec<BenchCase>, Vec<LeftOut>) {
    let wanted = if ground.has_host { between(ground) } else { on_one(ground) };
    let (mut cases, mut others): (Vec<BenchCase>, Vec<LeftOut>) = (Vec::new(), Vec::new());
    let (mut missing, mut seen): (Vec<MissingProgram>, BTreeSet<BenchCase>) = (Vec::new(), BTreeSet::new());
    for case in wanted {
        if !seen.insert(case.clone()) {
            continue;
        }
        let lacks = lacks(&case, &ground.tools);
        for (program, place) in &lacks {
            match missing.iter_mut().find(|found| (found.program, found.place) == (*program, *place)) {
                Some(found) => found.rows.push(case.label()),
                None => missing.push(MissingProgram { program, place, rows: vec![case.label()] }),
            }
        }
        match obstacle(&case, ground) {
            _ if !lacks.is_empty() => {}
            None => cases.push(case),
            Some(out) if others.contains(&out) => {}
            Some(out) => others.push(out),
        }
    }
    (baselines_first(&cases), missing.into_iter().map(MissingProgram::left_out).chain(others).collect())
}

/// Moves the baseline rows to the start of each group, so that whenever the time runs out, measured rows have their
/// baselines.
fn baselines_first(cases: &[BenchCase]) -> Vec<BenchCase> {
    let mut begun: BTreeSet<GroupKey> = BTreeSet::new();
    let mut ordered: Vec<BenchCase> = Vec::with_capacity(cases.len());
    for case in cases {
        let key = GroupKey::of(case);
        if begun.insert(key) {
            for way in BASELINE {
                let is_it = |other: &&BenchCase| {
                    other.way == way && other.is_baseline() && GroupKey::of(other) == key
                };
                ordered.extend(cases.iter().find(is_it).cloned());
            }
        }
        if !case.is_baseline() {
            ordered.push(case.clone());
        }
    }
    ordered
}

/// A program that is not installed, and the rows that need it.
struct MissingProgram {
    program: &'static str,
    place: &'static str,
    rows: Vec<String>,
}

impl MissingProgram {
    fn left_out(mut self) -> LeftOut {
        let count = self.rows.len();
        self.rows.sort();
        self.rows.dedup();
        let more = if self.rows.len() > LABELS_MAX { " and others" } else { "" };
        self.rows.truncate(LABELS_MAX);
        let rows = self.rows.join("; ");
        let ending = if count == 1 { "" } else { "s" };
        let why = format!("it is not installed {}, for {count} row{ending} ({rows}{more})", self.place);
        LeftOut { what: self.program.to_owned(), why }
    }
}

/// Returns the programs that a row needs and that are missing, and where they are missing.
fn lacks(case: &BenchCase, tools: &Tools) -> Vec<(&'static str, &'static str)> {
    let mut programs = case.way.programs().to_vec();
    if case.way != Method::Hakobu && Compressor::PROGRAMS.contains(&case.compressor) {
        programs.push(case.compressor.name());
    }
    if case.ends == EndKinds::DiskToDisk && !matches!(case.way, Method::Hakobu | Method::Dd | Method::Nc) {
        programs.push("sync");
    }
    let of = |program: &'static str| {
        let missing_here = !tools.here.has(program);
        let missing_there = program != "scp" && tools.there.as_ref().is_some_and(|there| !there.has(program));
        Some(match (missing_here, missing_there) {
            (false, false) => return None,
            (true, true) => (program, "at both ends"),
            (true, false) => (program, "here"),
            (false, true) => (program, "on the host"),
        })
    };
    let mut lacks: Vec<_> = programs.into_iter().filter_map(of).collect();
    let has_gzip = tools.here.has("gzip") || lacks.iter().any(|(program, _)| *program == "gzip");
    if case.content == DataKind::Gzipped && !has_gzip {
        lacks.push(("gzip", "here"));
    }
    lacks
}

/// Returns what prevents a row.
fn obstacle(case: &BenchCase, ground: &PlanFacts) -> Option<LeftOut> {
    let out = |what: &str, why: String| Some(LeftOut { what: what.to_owned(), why });
    if let Some((ends, why)) = ground.no_ends.iter().find(|(ends, _)| *ends == case.ends) {
        return out(ends.name(), why.clone());
    }
    if case.way.has_own_connection() {
        match (case.starter, &ground.no_port, &ground.no_near_port) {
            (Initiator::Here, Some(why), _) => return out("nc, mbuffer", why.clone()),
            (Initiator::There, _, Some(why)) => return out("nc, mbuffer, started there", why.clone()),
            _ => {}
        }
        let ends = [(Some(&ground.tools.here), "here"), (ground.tools.there.as_ref(), "on the host")];
        let unknown =
            ends.into_iter().find_map(|(end, at)| Some((end.filter(|end| end.netcat.is_none())?, at)));
        if let (Method::Nc, Some((end, at))) = (case.way, unknown) {
            let says = match end.netcat_says.as_str() {
                "" => "it says nothing about itself".to_owned(),
                words => format!("it says: {words}"),
            };
            return out("nc", format!("the one {at} is of a kind whose way of ending is not known; {says}"));
        }
    } else if let (Initiator::There, Some(why)) = (case.starter, &ground.no_way_back) {
        return out(BY_SSH_THERE, why.clone());
    }
    None
}

/// mbuffer sends to a listener, so when the host sends, the host connects.
const FROM_BY_MBUFFER: BenchCase = BenchCase {
    way: Method::Mbuffer,
    cipher: None,
    compressor: Compressor::None,
    block_bytes: BLOCK_BYTES,
    direction: DataDirection::FromHost,
    starter: Initiator::There,
    content: DataKind::Random,
    ends: EndKinds::MemoryToNothing,
};

/// Returns two hakobu cases for compressible data, with and without a compressor, in addition to its default.
fn of_hakobu(content: DataKind) -> [BenchCase; 2] {
    [Compressor::Off, Compressor::Zstd].map(|compressor| BenchCase {
        compressor,
        content,
        ..BenchCase::plain(Method::Hakobu, DataDirection::ToHost)
    })
}

/// Returns the rows between two machines.
fn between(ground: &PlanFacts) -> Vec<BenchCase> {
    let to = |way| BenchCase::plain(way, DataDirection::ToHost);
    let both = [DataDirection::ToHost, DataDirection::FromHost];
    let ciphers: Vec<Option<String>> = ground.tools.ssh_ciphers.iter().cloned().map(Some).collect();
    let ways = [Method::Hakobu, Method::Dd, Method::Scp, Method::Nc, Method::Mbuffer, Method::Tar];
    let mut cases: Vec<BenchCase> = ways.map(to).to_vec();
    // The opposite direction, and the other machine as the starter.
    for way in [Method::Hakobu, Method::Dd, Method::Scp] {
        cases.push(BenchCase::plain(way, DataDirection::FromHost));
    }
    for direction in both {
        for way in [Method::Dd, Method::Hakobu] {
            cases.push(BenchCase { starter: Initiator::There, ..BenchCase::plain(way, direction) });
        }
    }
    cases.push(FROM_BY_MBUFFER);
    let few =
        |cipher: &&Option<String>| cipher.as_deref().is_some_and(|cipher| FEW_CIPHERS.contains(&cipher));
    cases.extend(
        ciphers.iter().filter(few).map(|cipher| BenchCase { cipher: cipher.clone(), ..to(Method::Dd) }),
    );
    for compressor in Compressor::PROGRAMS {
        cases.push(BenchCase { compressor, content: DataKind::Text, ..to(Method::Dd) });
    }
    cases.extend([Method::Hakobu, Method::Dd].map(|way| BenchCase { content: DataKind::Text, ..to(way) }));
    cases.extend(of_hakobu(DataKind::Text));
    cases.extend(FEW_BLOCKS.map(|block_bytes| BenchCase { block_bytes, ..to(Method::Dd) }));
    for way in [Method::Hakobu, Method::Dd, Method::Rsync] {
        cases.push(BenchCase { ends: EndKinds::MemoryToMemory, ..to(way) });
        cases.push(BenchCase { ends: EndKinds::DiskToDisk, ..to(way) });
    }
    if ground.full {
        all_between(&ciphers, &mut cases);
    }
    cases
}

/// Adds all values of each parameter, combined with the parameters that it depends on, but not all combinations.
fn all_between(ciphers: &[Option<String>], cases: &mut Vec<BenchCase>) {
    let both = [DataDirection::ToHost, DataDirection::FromHost];
    let to = |way| BenchCase::plain(way, DataDirection::ToHost);
    let own: Vec<Option<String>> = OWN_CIPHERS.iter().map(|name| Some((*name).to_owned())).collect();
    for content in [DataKind::Random, DataKind::Text, DataKind::Zeros, DataKind::Gzipped] {
        for compressor in [[Compressor::None].as_slice(), &Compressor::PROGRAMS].concat() {
            cases.extend([Method::Dd, Method::Nc].map(|way| BenchCase { compressor, content, ..to(way) }));
        }
        cases.extend([Method::Hakobu, Method::Scp].map(|way| BenchCase { content, ..to(way) }));
        if matches!(content, DataKind::Text | DataKind::Zeros) {
            cases.extend(of_hakobu(content));
        }
        cases.push(BenchCase { compressor: Compressor::Ssh, content, ..to(Method::Scp) });
    }
    for way in [Method::Dd, Method::Nc, Method::Mbuffer] {
        cases.extend(BLOCKS.map(|block_bytes| BenchCase { block_bytes, ..to(way) }));
    }
    for ends in [EndKinds::MemoryToMemory, EndKinds::DiskToDisk] {
        for direction in both {
            for way in [
                Method::Hakobu,
                Method::Dd,
                Method::Scp,
                Method::Nc,
                Method::Mbuffer,
                Method::Rsync,
                Method::Tar,
            ] {
                let plain = match (way, direction) {
                    (Method::Mbuffer, DataDirection::FromHost) => FROM_BY_MBUFFER,
                    _ => BenchCase::plain(way, direction),
                };
                cases.push(BenchCase { ends, ..plain });
            }
        }
    }
    for direction in both {
        for starter in [Initiator::Here, Initiator::There] {
            let case = |way, cipher: &Option<String>| BenchCase {
                cipher: cipher.clone(),
                starter,
                ..BenchCase::plain(way, direction)
            };
            cases.push(case(Method::Scp, &None));
            cases.extend(
                ciphers.iter().flat_map(|cipher| [Method::Dd, Method::Scp].map(|way| case(way, cipher))),
            );
            cases.extend(own.iter().map(|cipher| case(Method::Hakobu, cipher)));
        }
        cases.extend([Method::Nc, Method::Tar].map(|way| BenchCase::plain(way, direction)));
        cases.push(BenchCase { starter: Initiator::There, ..BenchCase::plain(Method::Nc, direction) });
    }
}

/// Returns the rows of one machine.
fn on_one(ground: &PlanFacts) -> Vec<BenchCase> {
    let here = |way| BenchCase::plain(way, DataDirection::Here);
    let mut cases = Vec::new();
    for ends in [EndKinds::MemoryToNothing, EndKinds::MemoryToMemory, EndKinds::DiskToDisk] {
        for way in [Method::Hakobu, Method::Cp, Method::Dd, Method::Rsync, Method::Tar] {
            if ends != EndKinds::MemoryToNothing || way.discards() {
                cases.push(BenchCase { ends, ..here(way) });
            }
        }
    }
    let blocks = if ground.full { BLOCKS.as_slice() } else { &FEW_BLOCKS };
    let ends = EndKinds::MemoryToMemory;
    cases.extend(blocks.iter().map(|block_bytes| BenchCase {
        ends,
        block_bytes: *block_bytes,
        ..here(Method::Dd)
    }));
    if ground.full {
        for content in [DataKind::Text, DataKind::Zeros] {
            for way in [Method::Hakobu, Method::Cp, Method::Dd, Method::Rsync, Method::Tar] {
                cases.push(BenchCase { ends: EndKinds::DiskToDisk, content, ..here(way) });
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::super::tools::{MachineTools, Netcat, WANTED};
    use super::*;

    fn ground(full: bool) -> PlanFacts {
        let (programs, netcat) = (WANTED.map(str::to_owned).to_vec(), Some(Netcat::OpenBsd));
        let all = MachineTools { programs, netcat, ..MachineTools::default() };
        let tools = Tools {
            here: all.clone(),
            there: Some(all),
            ssh_ciphers: vec!["aes128-ctr".to_owned(), "aes256-gcm@openssh.com".to_owned()],
        };
        PlanFacts { has_host: true, full, tools, ..PlanFacts::default() }
    }

    #[test]
    fn a_full_bench_has_every_one_once_and_a_short_one_a_part_of_it() {
        let (few, left_out) = plan(&ground(false));
        assert_eq!(left_out, []);
        let (all, left_out) = plan(&ground(true));
        assert_eq!(left_out, []);
        assert!(few.len() < 45 && all.len() > 2 * few.len(), "{} {}", few.len(), all.len());
        assert_eq!(few[0], BenchCase::plain(Method::Hakobu, DataDirection::ToHost));
        for case in &few {
            assert!(all.contains(case), "{case:?}");
        }
        let mut once = all.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), all.len());
        let has = |holds: fn(&BenchCase) -> bool| assert!(all.iter().any(holds));
        has(|case| {
            case.compressor == Compressor::Lzop && case.way == Method::Nc && case.content == DataKind::Gzipped
        });
        has(|case| case.block_bytes == 4 << 20 && case.way == Method::Mbuffer);
        has(|case| {
            case.starter == Initiator::There
                && case.direction == DataDirection::FromHost
                && case.way == Method::Scp
        });
        has(|case| case.ends == EndKinds::DiskToDisk && case.way == Method::Rsync);
        has(|case| case.way == Method::Mbuffer && case.direction == DataDirection::FromHost);
        has(|case| case.way == Method::Nc && case.starter == Initiator::There);
        for compressor in [Compressor::None, Compressor::Off, Compressor::Zstd] {
            let wanted = |case: &BenchCase| case.way == Method::Hakobu && case.compressor == compressor;
            assert!(few.iter().any(|case| wanted(case) && case.content == DataKind::Text), "{compressor:?}");
        }
    }

    #[test]
    fn every_group_begins_with_what_it_is_compared_with() {
        for ground in [ground(false), ground(true), PlanFacts { has_host: false, ..ground(true) }] {
            let cases = plan(&ground).0;
            let keys: BTreeSet<GroupKey> = cases.iter().map(GroupKey::of).collect();
            for key in keys {
                let group: Vec<&BenchCase> = cases.iter().filter(|case| GroupKey::of(case) == key).collect();
                let first: Vec<Method> =
                    group.iter().take_while(|case| case.is_baseline()).map(|case| case.way).collect();
                assert_eq!(first, [Method::Hakobu, Method::Dd], "{key:?}");
                assert!(group[2..].iter().all(|case| !case.is_baseline()), "{key:?}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_left_out_once_and_said() {
        let mut ground = ground(true);
        ground.tools.here.programs.retain(|name| name != "pigz" && name != "mbuffer");
        ground.tools.there.as_mut().unwrap().programs.retain(|name| name != "mbuffer" && name != "rsync");
        ground.tools.there.as_mut().unwrap().netcat = None;
        ground.no_way_back = Some("it cannot log in here".to_owned());
        ground.tools.here.programs.retain(|name| name != "zstd");
        ground.no_ends = vec![(EndKinds::DiskToDisk, "no room".to_owned())];
        let (cases, left_out) = plan(&ground);
        let said: Vec<String> = left_out.iter().map(|out| format!("{}: {}", out.what, out.why)).collect();
        for words in [
            "pigz: it is not installed here, for ",
            "zstd: it is not installed here, for ",
            "mbuffer: it is not installed at both ends, for ",
            "rsync: it is not installed on the host, for ",
            "started there, by ssh (hakobu, dd | ssh, scp): it cannot log in here",
            "disk to disk: no room",
            "nc: the one on the host is of a kind whose way of ending is not known; it says nothing about itself",
        ] {
            assert_eq!(said.iter().filter(|line| line.starts_with(words)).count(), 1, "{words}: {said:?}");
        }
        // Every missing program that a row needs is listed.
        let mut bare = self::ground(true);
        bare.tools.there.as_mut().unwrap().programs.clear();
        let bare = plan(&bare).1;
        for program in ["dd", "nc", "mbuffer", "rsync", "tar", "gzip", "lzop", "pigz", "zstd", "sync"] {
            let out = bare.iter().find(|out| out.what == program);
            let why = &out.unwrap_or_else(|| panic!("{program}: {bare:?}")).why;
            assert!(why.contains(" row") && why.contains("on the host"), "{why}");
        }
        let fits = |case: &BenchCase| {
            !matches!(case.way, Method::Mbuffer | Method::Rsync | Method::Nc)
                && case.compressor != Compressor::Pigz
                && case.starter == Initiator::Here
                && case.ends != EndKinds::DiskToDisk
        };
        assert!(cases.iter().all(fits) && cases.len() > 20);
        // hakobu's own compression needs no program.
        assert!(cases.iter().any(|case| case.compressor == Compressor::Zstd));
    }

    #[test]
    fn a_port_that_cannot_be_reached_stops_its_own_direction_alone() {
        let of = |no_port: Option<&str>, no_near_port: Option<&str>| {
            let words = |why: Option<&str>| why.map(str::to_owned);
            let ground =
                PlanFacts { no_port: words(no_port), no_near_port: words(no_near_port), ..ground(true) };
            let (cases, left_out) = plan(&ground);
            let mut starters: Vec<Initiator> =
                cases.iter().filter(|case| case.way.has_own_connection()).map(|case| case.starter).collect();
            starters.sort();
            starters.dedup();
            (starters, left_out)
        };
        assert_eq!(of(None, None), (vec![Initiator::Here, Initiator::There], vec![]));
        let (starters, left_out) = of(Some("filtered"), None);
        assert_eq!(starters, [Initiator::There]);
        assert_eq!((left_out.len(), left_out[0].what.as_str()), (1, "nc, mbuffer"));
        let (starters, left_out) = of(None, Some("filtered"));
        assert_eq!(starters, [Initiator::Here]);
        assert_eq!((left_out.len(), left_out[0].what.as_str()), (1, "nc, mbuffer, started there"));
    }

    #[test]
    fn one_machine_has_ways_of_its_own() {
        let (cases, _) = plan(&PlanFacts { has_host: false, ..ground(false) });
        assert!(cases.iter().all(|case| case.direction == DataDirection::Here));
        for way in [Method::Hakobu, Method::Cp, Method::Dd, Method::Rsync, Method::Tar] {
            assert!(cases.iter().any(|case| case.way == way), "{way:?}");
        }
    }
}
