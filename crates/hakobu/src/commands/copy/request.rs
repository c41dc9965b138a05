//! The request of `copy`, `sync` and `verify`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use hakobu_agent::stream::{named_source, named_target};
use hakobu_core::compression::Compression;
use hakobu_core::error::Error;
use hakobu_core::filter::FilterRules;
use hakobu_core::job::{FileSample, Mode};
use hakobu_core::location::Location;
use hakobu_core::pace::{RateLimit, RunLimits};
use hakobu_core::request::Passes;
use hakobu_core::request::{
    AllowedRights, CipherChoice, CopyRequest, Deletion, DeletionMax, Durability, RETRY_FOR_DEFAULT,
    RETRY_FOR_DETACHED, Transport, Verify,
};
use hakobu_core::units::parse_duration;

use super::arguments::CopyArguments;
use super::attributes::{preserve, requirement};
use super::pairs;
use crate::commands::shared::filter::filter;
use crate::commands::shared::findings::{Findings, usage};
use crate::commands::shared::lanes::lanes;
use crate::commands::shared::store::{ObjectArguments, StoreArguments, is_in_object_store};
use crate::settings_file::name_places;

/// Returns the request that the arguments stand for. `environment_ssh` is the value of
/// [`crate::settings_file::SSH_VARIABLE`].
///
/// # Errors
/// `Usage` for each invalid or unsupported value; `Requirement` for an attribute in `--require` that no target can
/// preserve.
pub fn request(
    typed: &CopyArguments,
    mode: Mode,
    environment_ssh: Option<OsString>,
) -> Result<CopyRequest, Vec<Error>> {
    let mut found = Findings::default();
    refuse_later(typed, &mut found);
    let sources = typed.sources.iter().map(|source| Location::parse(source.as_bytes()));
    let sources = sources.filter_map(|source| found.keep(source)).map(named_source).collect();
    let target = typed.target.as_ref().map(|target| Location::parse(target.as_bytes()));
    let target = target.and_then(|target| found.keep(target)).map(named_target).unwrap_or_default();
    let mut request = CopyRequest { sources, target, mode, ..CopyRequest::default() };
    if let Some(file) = &typed.pairs {
        let pairs = found.keep(pairs::read(file)).unwrap_or_default().into_iter();
        request.pairs = pairs.map(|(from, to)| (named_source(from), named_target(to))).collect();
    }
    check_streams(&mut request, typed, &mut found);
    (request.restart, request.live) = (typed.restart, typed.live);
    let allows = |what: &str| typed.allow.iter().any(|allowed| allowed == what);
    request.allow = AllowedRights { set_id: allows("setuid"), devices: allows("devices") };
    request.preserve = preserve(&typed.preserve, &mut found);
    request.preserve.by_name = typed.by_name;
    request.one_file_system = typed.filter.one_file_system;
    request.compare_content = typed.compare == "digest";
    request.nice = typed.nice;
    (request.in_place, request.whole_file) = (typed.in_place, typed.whole_file);
    request.sample = sample(typed, mode, &mut found);
    request.full = typed.full;
    request.filter = filter(&typed.filter).unwrap_or_else(|errors| {
        found.errors.extend(errors);
        FilterRules::default()
    });
    request.passes = passes(typed, mode, &mut found);
    request.deletion = deletion(typed, mode, &mut found);
    // A listed entry that no longer exists is deleted at the target too, if the user agrees to deletions.
    let goes = request.deletion.as_ref().is_some_and(|deletion| deletion.agreed);
    request.filter.only_those_there = request.filter.only.is_some() && !goes;
    // A source that is frozen for the last pass may be in use until then.
    request.live |= request.passes.as_ref().is_some_and(|passes| passes.before_last.is_some());
    request.confirmed.clone_from(&typed.confirm);
    request.skip_unreadable = typed.on_read_error == "skip";
    request.lanes = found.keep(lanes(&typed.lanes)).unwrap_or_default();
    request.limits = limits(typed, mode, &mut found);
    request.compression = compression(typed, mode, &mut found);
    request.cipher = CipherChoice::from_name(&typed.cipher).unwrap_or_default();
    request.transport = match typed.transport.as_str() {
        "agent" => Transport::Agent,
        "sftp" => Transport::Sftp,
        "ssh" => Transport::Ssh,
        "rsync" => Transport::Rsync,
        _ => Transport::Auto,
    };
    request.verify = match typed.verify.as_deref() {
        Some("none") => Verify::None,
        Some("wire") => Verify::Wire,
        Some("medium") => Verify::Medium,
        _ => Verify::Auto,
    };
    request.durable = if typed.durable.is_some() { Durability::None } else { Durability::Yes };
    for name in &typed.require {
        request.require.extend(found.keep(requirement(name)));
    }
    match typed.retry_for.as_deref().map(parse_duration) {
        Some(Ok(duration)) => request.retry_for = duration,
        Some(Err(error)) => found.usage("--retry-for", error.to_string()),
        None if typed.detach => request.retry_for = RETRY_FOR_DETACHED,
        None => {}
    }
    let store_retry_for = Some(request.retry_for).filter(|time| *time != RETRY_FOR_DEFAULT);
    if request.target.is_stream() || request.sources.iter().any(Location::is_stream) {
        // A run that writes to or reads from a pipe cannot be repeated.
        request.retry_for = Duration::ZERO;
    }
    found.login(&typed.login, environment_ssh, &mut request);
    stores(typed, store_retry_for, &mut request, &mut found);
    request.data_address =
        typed.data_address.as_deref().and_then(|address| found.keep(data_address(address)));
    request.password_file.clone_from(&typed.password_file);
    (request.data_port, request.dry_run) = (typed.data_port, typed.dry_run);
    request.itemize = typed.itemize || typed.log_file.is_some();
    if typed.itemize && mode == Mode::Compare {
        found.usage("--itemize", "hakobu verify changes nothing; each difference is a line anyway");
    }
    name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}

/// Checks that standard input is the only source and standard output the only target, and that the options allow
/// that.
fn check_streams(request: &mut CopyRequest, typed: &CopyArguments, found: &mut Findings) {
    if request.pairs.iter().any(|(source, target)| source.is_stream() || target.is_stream()) {
        found.usage("-", "--pairs takes files and disks only");
    }
    if request.sources.iter().any(Location::is_stream) {
        if request.sources.len() > 1 {
            found.usage("-", "standard input must be the only source");
        }
        if request.mode != Mode::Copy {
            found.usage("-", "standard input works with copy only, as it cannot be read twice");
        }
        if typed.verify.as_deref() == Some("medium") {
            found.usage(
                "--verify",
                "standard input cannot be read again to repair what the disk did not keep",
            );
        }
        if typed.detach {
            found.usage("--detach", "a background job has no standard input");
        }
    }
    if !request.target.is_stream() {
        return;
    }
    let is_input = |source: &Location| source.is_stream() && source.as_typed() == request.target.as_typed();
    if request.target.as_typed() != b"-" && request.sources.iter().any(is_input) {
        found.usage("TARGET", "source and target are the same stream");
    }
    if request.mode != Mode::Copy {
        found.usage("-", "standard output works with copy only");
    }
    if typed.verify.as_deref() == Some("medium") {
        found.usage("--verify", "standard output cannot be read back");
    }
    if typed.report.as_deref() == Some(Path::new("-")) {
        found.usage("--report", "standard output is the target; choose a file for the report");
    }
}

/// Returns the passes over a source in use, if one of their options was typed.
fn passes(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Option<Passes> {
    let until_under = typed.until_under.as_deref().map(parse_duration).transpose();
    let until_under = until_under.unwrap_or_else(|error| {
        found.usage("--until-under", error.to_string());
        None
    });
    let passes = Passes {
        count: typed.passes,
        until_under,
        before_last: typed.before_last_pass.clone(),
        after_last: typed.after_last_pass.clone(),
    };
    if passes == Passes::default() {
        return None;
    }
    if mode != Mode::Delta {
        found.usage("--passes", "only hakobu sync makes several passes");
    }
    if passes.count.is_none() && passes.until_under.is_none() {
        return Some(Passes { count: Some(1), ..passes });
    }
    Some(passes)
}

/// Returns the share of files whose content is compared.
fn sample(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Option<FileSample> {
    let text = typed.sample.as_deref()?;
    if mode != Mode::Compare {
        found.usage("--sample", "only hakobu verify compares a sample");
    }
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().unwrap_or(f64::NAN);
    if !(percent > 0.0 && percent <= 100.0) {
        found.usage("--sample", "must be a percentage above 0 and up to 100, such as 5%");
        return None;
    }
    // Each run picks other files.
    let seed = jiff::Timestamp::now().as_nanosecond() as u64;
    Some(FileSample { per_million: (percent * 10_000.0).ceil() as u32, seed })
}

/// Returns the deletion policy. `None` if the mode never deletes.
fn deletion(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Option<Deletion> {
    if mode != Mode::Delta {
        if typed.in_place || typed.whole_file {
            let option = if typed.in_place { "--in-place" } else { "--whole-file" };
            found.usage(option, "only hakobu sync has this option");
        }
        let options = [
            (typed.delete, "--delete"),
            (typed.delete_during, "--delete-during"),
            (typed.max_delete.is_some(), "--max-delete"),
        ];
        if let Some((_, option)) = options.iter().find(|(is_typed, _)| *is_typed) {
            found.usage(option, "only hakobu sync deletes");
        }
        return None;
    }
    let max = typed.max_delete.as_deref().and_then(|limit| {
        let parsed = deletion_max(limit);
        if parsed.is_none() {
            found.usage("--max-delete", "must be a number such as 1000, or a percentage such as 20%");
        }
        parsed
    });
    // `--delete-during` implies `--delete`.
    Some(Deletion { agreed: typed.delete || typed.delete_during, first: typed.delete_during, max })
}

fn deletion_max(limit: &str) -> Option<DeletionMax> {
    match limit.strip_suffix('%') {
        Some(percent) => {
            percent.trim().parse().ok().filter(|percent| *percent <= 100).map(DeletionMax::Percent)
        }
        None => limit.parse().ok().map(DeletionMax::Count),
    }
}

fn refuse_later(typed: &CopyArguments, found: &mut Findings) {
    if typed.memory.is_some() {
        let detail = "not in this version; memory use is always bounded and does not grow with the \
                      number of files";
        found.usage("--memory", detail);
    }
}

/// Returns the limits of the run.
fn limits(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> RunLimits {
    if typed.dry_run && typed.detach {
        found.usage("--detach", "a dry run is no job; leave out one of them");
    }
    if typed.dry_run && mode.only_reads() {
        found.usage("--dry-run", "verify writes nothing in any case; leave it out");
    }
    let limits = typed.limits.read().unwrap_or_else(|errors| {
        found.errors.extend(errors);
        RunLimits::default()
    });
    // Only digests are sent.
    let rate = if mode.only_reads() { RateLimit::default() } else { limits.rate };
    RunLimits { rate, ..limits }
}

/// Puts the settings of the stores of both ends into a request.
fn stores(
    typed: &CopyArguments,
    retry_for: Option<Duration>,
    request: &mut CopyRequest,
    found: &mut Findings,
) {
    let ends = match request.pairs.first() {
        Some((source, target)) => (Some(source), Some(target)),
        None => (request.sources.first(), Some(&request.target)),
    };
    let (mut source, mut target) = found.stores((&typed.store, &typed.objects), ends);
    if let Some(profile) = &typed.source_profile {
        let of_source = StoreArguments { profile: Some(profile.clone()), ..StoreArguments::default() };
        let parsed = found.store(&of_source, &ObjectArguments::default(), None);
        source.profile = parsed.profile;
    }
    // One store is opened once, for both.
    let is_one = source == target && ends.0.and_then(Location::store) == ends.1.and_then(Location::store);
    if !is_one || request.mode.only_reads() {
        source = source.for_reading();
    }
    if request.mode.only_reads() {
        target = target.for_reading();
    }
    (source.retry_for, target.retry_for) = (retry_for, retry_for);
    (request.source_store, request.target_store) = (source, target);
}

/// Returns notes on options for object stores that have no effect in this run.
pub(super) fn stores_without_effect(typed: &CopyArguments, request: &CopyRequest) -> Vec<String> {
    let paired = |of: fn(&(Location, Location)) -> &Location| request.pairs.iter().map(of);
    let from_store = request.sources.iter().chain(paired(|pair| &pair.0)).any(is_in_object_store);
    let to_store = [&request.target].into_iter().chain(paired(|pair| &pair.1)).any(is_in_object_store);
    let mut notes = typed.store.without_effect(from_store || to_store);
    let mut note = |option: &str, why: &str| notes.push(format!("{option} has no effect: {why}"));
    if typed.source_profile.is_some() && !from_store {
        note("--source-profile", "the source is not in an object store");
    }
    let why = match (request.mode.only_reads(), to_store) {
        (true, _) => NOTHING_WRITTEN,
        (false, false) => "the target is not in an object store",
        (false, true) => return notes,
    };
    typed.objects.given().into_iter().for_each(|option| note(option, why));
    notes
}

const NOTHING_WRITTEN: &str = "nothing is written";

/// Returns notes on options that have no effect in this run.
pub(super) fn without_effect(typed: &CopyArguments, mode: Mode) -> Vec<String> {
    let compresses =
        matches!(Compression::parse(&typed.compress), Ok(Compression::Adapted | Compression::Level(_)));
    const NOTHING_SENT: &str = "only digests are sent";
    let in_vain = [
        ("--bwlimit", typed.limits.bwlimit.is_some(), NOTHING_SENT),
        ("--compress", compresses, NOTHING_SENT),
        ("--compare digest", typed.compare == "digest", "content is compared in any case"),
        ("--durable", typed.durable.is_some(), NOTHING_WRITTEN),
        ("--restart", typed.restart, NOTHING_WRITTEN),
        ("--in-place", typed.in_place, NOTHING_WRITTEN),
        ("--whole-file", typed.whole_file, NOTHING_WRITTEN),
    ];
    in_vain
        .into_iter()
        .filter(|(_, is_typed, _)| *is_typed && mode.only_reads())
        .map(|(option, _, why)| format!("{option} has no effect: {why}"))
        .collect()
}

/// Returns the compression of the data that is sent.
fn compression(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Compression {
    let parsed = Compression::parse(&typed.compress).unwrap_or_else(|error| {
        found.usage("--compress", error.detail);
        Compression::Auto
    });
    match parsed {
        Compression::Adapted | Compression::Level(_) if mode.only_reads() => Compression::Auto,
        parsed => parsed,
    }
}

/// Parses a host name or an address, with or without brackets, and without a port.
fn data_address(text: &str) -> Result<String, Error> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let wrong = |detail| Err(usage("--data-address", detail));
    if bare.is_empty() || bare.starts_with('-') {
        return wrong("must be a host name or an address of the other host");
    }
    if bare.contains(|c: char| c.is_control() || c.is_whitespace() || "/[]@".contains(c)) {
        return wrong("must be a host name or an address only");
    }
    if bare.matches(':').count() == 1 {
        return wrong("the port is set with --data-port N");
    }
    Ok(bare.to_owned())
}

#[cfg(test)]
mod tests;
