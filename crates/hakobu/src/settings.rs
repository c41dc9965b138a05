//! From what was typed to a request: every value is checked, and every option that this version
//! lacks is refused. All that is wrong is said at once.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hakobu_agent::disks::DisksRequest;
use hakobu_agent::doctor::DoctorRequest;
use hakobu_agent::probe::ProbeRequest;
use hakobu_agent::request::Passes;
use hakobu_agent::request::{
    Allow, CipherChoice, CopyRequest, Deletion, DeletionMax, Durable, HostLogin, Lanes, Preserve,
    RETRY_FOR_DETACHED, Transport, Verify,
};
use hakobu_agent::stream::{named_source, named_target};
use hakobu_core::compression::Compression;
use hakobu_core::digest::Algorithm;
use hakobu_core::entry::Time;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::extended::Classes;
use hakobu_core::filter::{Filter, FilterRules};
use hakobu_core::job::{LANES_MAX, Mode, Sample};
use hakobu_core::location::{Location, SshHost};
use hakobu_core::losses::LossKind;
use hakobu_core::pace::Limits;
use hakobu_core::units::{parse_bytes, parse_duration};

use crate::arguments::copy::CopyArguments;
use crate::arguments::digest::DigestArguments;
use crate::arguments::disks::DisksArguments;
use crate::arguments::doctor::DoctorArguments;
use crate::arguments::filter::FilterArguments;
use crate::arguments::login::LoginArguments;
use crate::arguments::probe::ProbeArguments;
use crate::{files_from, pairs, settings_file, shell};

/// The answer to `-` where nothing is written to it.
const NO_INPUT: &str = "hakobu digest does not read standard input in this version; b3sum and sha256sum do. A file named - is ./-";
/// The kinds that `--require` knows.
const REQUIREMENTS: [LossKind; 8] = [
    LossKind::Xattr,
    LossKind::Acl,
    LossKind::HardLinks,
    LossKind::Holes,
    LossKind::Owner,
    LossKind::SetId,
    LossKind::Flags,
    LossKind::Times,
];

/// The request that the arguments stand for. `environment_ssh` is the value of [`settings_file::SSH_VARIABLE`].
///
/// # Errors
/// `Usage` for each value that is wrong or of a later version; `Requirement` for what `--require`
/// asks for and no target of this version has.
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
    if mode != Mode::Copy && typed.sources.len() > 1 {
        found.usage("SOURCE", "there is one source in this version");
    }
    (request.restart, request.live) = (typed.restart, typed.live);
    let allows = |what: &str| typed.allow.iter().any(|allowed| allowed == what);
    request.allow = Allow { set_id: allows("setuid"), devices: allows("devices") };
    request.preserve = preserve(&typed.preserve, &mut found);
    request.preserve.by_name = typed.by_name;
    request.one_file_system = typed.filter.one_file_system;
    request.compare_content = typed.compare == "digest";
    request.nice = typed.nice;
    (request.in_place, request.whole_file) = (typed.in_place, typed.whole_file);
    request.sample = sample(typed, mode, &mut found);
    request.filter = filter(&typed.filter).unwrap_or_else(|errors| {
        found.errors.extend(errors);
        FilterRules::default()
    });
    request.passes = passes(typed, mode, &mut found);
    request.deletion = deletion(typed, mode, &mut found);
    // What is listed and gone is to go at the target as well, for whoever agrees to that.
    let goes = request.deletion.as_ref().is_some_and(|deletion| deletion.agreed);
    request.filter.only_those_there = request.filter.only.is_some() && !goes;
    // What is held still for the last pass may be in use until then.
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
    request.durable = if typed.durable.is_some() { Durable::None } else { Durable::Yes };
    for name in &typed.require {
        request.require.extend(found.keep(requirement(name)));
    }
    match typed.retry_for.as_deref().map(parse_duration) {
        Some(Ok(duration)) => request.retry_for = duration,
        Some(Err(error)) => found.usage("--retry-for", error.to_string()),
        None if typed.detach => request.retry_for = RETRY_FOR_DETACHED,
        None => {}
    }
    if request.target.is_stream() || request.sources.iter().any(Location::is_stream) {
        // What has gone out cannot be taken back, and what has come in does not come again.
        request.retry_for = Duration::ZERO;
    }
    found.login(&typed.login, environment_ssh, &mut request);
    request.data_address =
        typed.data_address.as_deref().and_then(|address| found.keep(data_address(address)));
    request.password_file.clone_from(&typed.password_file);
    (request.data_port, request.dry_run) = (typed.data_port, typed.dry_run);
    settings_file::name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}

/// Standard input can be the source and standard output the target of `copy`, each by itself.
fn check_streams(request: &mut CopyRequest, typed: &CopyArguments, found: &mut Findings) {
    if request.pairs.iter().any(|(source, target)| source.is_stream() || target.is_stream()) {
        found.usage("-", "pairs are of files and disks");
    }
    if request.sources.iter().any(Location::is_stream) {
        if request.sources.len() > 1 {
            found.usage("-", "standard input is copied alone");
        }
        if request.mode != Mode::Copy {
            found.usage("-", "standard input can only be copied; it cannot be read a second time");
        }
        if typed.verify.as_deref() == Some("medium") {
            found.usage(
                "--verify",
                "standard input cannot be read again to mend what the medium did not keep",
            );
        }
        if typed.detach {
            found.usage("--detach", "standard input ends with the terminal");
        }
    }
    if !request.target.is_stream() {
        return;
    }
    let is_input = |source: &Location| source.is_stream() && source.as_typed() == request.target.as_typed();
    if request.target.as_typed() != b"-" && request.sources.iter().any(is_input) {
        found.usage("TARGET", "it is the source as well");
    }
    if request.mode != Mode::Copy {
        found.usage("-", "standard output can only be copied to");
    }
    if typed.verify.as_deref() == Some("medium") {
        found.usage("--verify", "nothing can be read back from standard output");
    }
    if typed.report.as_deref() == Some(Path::new("-")) {
        found.usage("--report", "standard output is the target; name a file");
    }
}

/// The request that the arguments of `digest` stand for.
///
/// # Errors
/// As [`request`].
pub fn digest_request(
    typed: &DigestArguments,
    environment_ssh: Option<OsString>,
) -> Result<CopyRequest, Vec<Error>> {
    let mut found = Findings::default();
    let location = found.keep(Location::parse(typed.location.as_bytes()));
    let location = location.map(named_source).unwrap_or_default();
    let algorithm = Algorithm::from_name(&typed.algorithm).unwrap_or_default();
    if location.is_stream() {
        found.usage("-", NO_INPUT);
    }
    let mut request = hakobu_agent::digest::request(location, algorithm);
    request.live = typed.live;
    request.skip_unreadable = typed.on_read_error == "skip";
    found.login(&typed.login, environment_ssh, &mut request);
    settings_file::name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}

/// The request that the arguments of `disks` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn disks_request(
    typed: &DisksArguments,
    environment_ssh: Option<OsString>,
) -> Result<DisksRequest, Vec<Error>> {
    let mut found = Findings::default();
    let request = DisksRequest {
        host: typed.host.as_ref().and_then(|typed| found.keep(host(typed.as_bytes()))),
        ssh: found.keep(ssh(typed.login.ssh.as_ref(), environment_ssh)).unwrap_or_default(),
        agent: found.keep(agent(typed.login.agent.as_ref())).unwrap_or_default(),
        sudo: typed.login.sudo,
    };
    if typed.host.is_none() && typed.login.sudo {
        found.usage("--sudo", "it is for another machine; here: sudo hakobu disks");
    }
    if found.errors.is_empty() { Ok(request) } else { Err(found.errors) }
}

/// The request that the arguments of `doctor` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn doctor_request(
    typed: &DoctorArguments,
    environment_ssh: Option<OsString>,
) -> Result<DoctorRequest, Vec<Error>> {
    let mut found = Findings::default();
    let request = DoctorRequest {
        host: typed.host.as_ref().and_then(|typed| found.keep(host(typed.as_bytes()))),
        ssh: found.keep(ssh(typed.login.ssh.as_ref(), environment_ssh)).unwrap_or_default(),
        agent: found.keep(agent(typed.login.agent.as_ref())).unwrap_or_default(),
        sudo: typed.login.sudo,
        lanes: found.keep(lanes(&typed.lanes)).unwrap_or_default(),
    };
    settings_file::name_places(&mut found.errors, &typed.login.from_files);
    if typed.host.is_none() && typed.login.sudo {
        found.usage("--sudo", "it is for another machine; here: sudo hakobu doctor");
    }
    found.or(request)
}

/// The request that the arguments of `probe` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn probe_request(
    typed: &ProbeArguments,
    environment_ssh: Option<OsString>,
) -> Result<ProbeRequest, Vec<Error>> {
    let mut found = Findings::default();
    let mut places = typed.places.iter().map(|typed| found.keep(Location::parse(typed.as_bytes())));
    let (first, second) = (places.next().flatten(), places.next().flatten());
    drop(places);
    let (source, target) = match typed.places.len() {
        1 => (None, first),
        _ => (first, second),
    };
    let limits = typed.limits.read().unwrap_or_else(|errors| {
        found.errors.extend(errors);
        Limits::default()
    });
    let request = ProbeRequest {
        source,
        target: target.unwrap_or_default(),
        gentle: typed.gentle,
        write: !typed.no_write,
        lanes: found.keep(lanes(&typed.lanes)).unwrap_or_default(),
        limits,
        compression: found
            .keep(Compression::parse(&typed.compress).map_err(|error| usage("--compress", error.detail)))
            .unwrap_or_default(),
        confirmed: typed.confirm.clone(),
        ssh: found.keep(ssh(typed.login.ssh.as_ref(), environment_ssh)).unwrap_or_default(),
        agent: found.keep(agent(typed.login.agent.as_ref())).unwrap_or_default(),
        sudo: typed.login.sudo,
        logins: found.logins(&typed.login),
    };
    let is_here = |place: &Location| place.ssh_host().is_none();
    if request.sudo
        && found.errors.is_empty()
        && is_here(&request.target)
        && request.source.iter().all(is_here)
    {
        found.usage("--sudo", "it is for another machine; here: sudo hakobu probe");
    }
    settings_file::name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}

/// A machine, typed as in a location but without a path.
pub(crate) fn host(typed: &[u8]) -> Result<SshHost, Error> {
    let wrong = || {
        let words = "it is no host: host, user@host or ssh://host:port; without one, this machine";
        Error::new(ErrorKind::Usage, "reading the host", words).at(typed)
    };
    let is_url = typed.windows(3).any(|bytes| bytes == b"://");
    let location = match is_url || typed.ends_with(b":") {
        true => Location::parse(typed),
        false if typed.is_empty() || typed.contains(&b'/') => return Err(wrong()),
        false => Location::parse(&[typed, b":"].concat()),
    }?;
    let has_path = !matches!(location.path(), b"." | b"/");
    location.ssh_host().filter(|_| !has_path).cloned().ok_or_else(wrong)
}

/// The words of the ssh to log in with.
pub(crate) fn ssh(typed: Option<&OsString>, environment: Option<OsString>) -> Result<Vec<OsString>, Error> {
    let typed = typed.cloned().map(|command| ("--ssh", command));
    let set =
        typed.or(environment.filter(|ssh| !ssh.is_empty()).map(|ssh| (settings_file::SSH_VARIABLE, ssh)));
    match set {
        Some((name, command)) => shell::split(&command).map_err(|words| usage(name, words)),
        None => Ok(vec![OsString::from("ssh")]),
    }
}

/// The program on the far side.
pub(crate) fn agent(typed: Option<&PathBuf>) -> Result<Option<PathBuf>, Error> {
    let path = typed.map(|agent| agent.as_os_str().as_bytes());
    match path {
        Some(path) if path.is_empty() || path.starts_with(b"-") => {
            Err(usage("--agent", "it is the path of hakobu on the other machine"))
        }
        _ => Ok(typed.cloned()),
    }
}

/// Errors so far.
#[derive(Default)]
struct Findings {
    errors: Vec<Error>,
}

impl Findings {
    fn keep<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    /// Everything that was found, if anything was.
    fn or<T>(self, request: T) -> Result<T, Vec<Error>> {
        if self.errors.is_empty() { Ok(request) } else { Err(self.errors) }
    }

    /// How to log in on another machine.
    fn login(
        &mut self,
        typed: &LoginArguments,
        environment_ssh: Option<OsString>,
        request: &mut CopyRequest,
    ) {
        request.ssh = self.keep(ssh(typed.ssh.as_ref(), environment_ssh)).unwrap_or_default();
        request.agent = self.keep(agent(typed.agent.as_ref())).unwrap_or_default();
        request.sudo = typed.sudo;
        request.logins = self.logins(typed);
    }

    /// Those of single machines.
    fn logins(&mut self, typed: &LoginArguments) -> Vec<HostLogin> {
        let own = typed.logins.iter().map(|login| HostLogin {
            host: login.host.clone(),
            ssh: self.keep(ssh(login.ssh.as_ref(), None)).unwrap_or_default(),
            agent: self.keep(agent(login.agent.as_ref())).unwrap_or_default(),
            sudo: login.sudo,
        });
        own.collect()
    }

    fn usage(&mut self, option: &str, detail: impl Into<String>) {
        self.errors.push(usage(option, detail));
    }
}

fn usage(option: &str, detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, "option", detail).at(option)
}

/// Passes over a source in use, if any of their options was given.
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
        found.usage("--passes", "passes belong to hakobu sync, which brings over only what changed");
    }
    if passes.count.is_none() && passes.until_under.is_none() {
        return Some(Passes { count: Some(1), ..passes });
    }
    Some(passes)
}

/// Which entries take part.
///
/// # Errors
/// `Usage` for each value that is wrong; what reading a file of rules fails with.
pub fn filter(typed: &FilterArguments) -> Result<FilterRules, Vec<Error>> {
    let mut found = Findings::default();
    let size = |found: &mut Findings, option: &str, text: Option<&str>| {
        text.and_then(|text| parse_bytes(text).map_err(|error| found.usage(option, error.to_string())).ok())
    };
    let time = |found: &mut Findings, option: &str, text: Option<&str>| {
        text.and_then(|text| {
            let parsed = when(text);
            if parsed.is_none() {
                found.usage(option, "it is an age, such as 7d or 12h, or a date, such as 2026-11-01");
            }
            parsed
        })
    };
    let rules = FilterRules {
        rules: found.keep(typed.rules.read()).unwrap_or_default(),
        newer_than: time(&mut found, "--newer-than", typed.newer_than.as_deref()),
        older_than: time(&mut found, "--older-than", typed.older_than.as_deref()),
        bytes_min: size(&mut found, "--min-size", typed.min_size.as_deref()),
        bytes_max: size(&mut found, "--max-size", typed.max_size.as_deref()),
        only: typed.files_from.as_deref().and_then(|file| found.keep(files_from::read(file))),
        only_those_there: false,
    };
    found.keep(Filter::new(&rules).map(drop));
    found.or(rules)
}

/// The share of files whose content is compared.
fn sample(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Option<Sample> {
    let text = typed.sample.as_deref()?;
    if mode != Mode::Compare {
        found.usage("--sample", "only hakobu verify reads a sample");
    }
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().unwrap_or(f64::NAN);
    if !(percent > 0.0 && percent <= 100.0) {
        found.usage("--sample", "it is a share above 0 and up to 100, such as 5%");
        return None;
    }
    // Another run takes other files.
    let seed = jiff::Timestamp::now().as_nanosecond() as u64;
    Some(Sample { per_million: (percent * 10_000.0).ceil() as u32, seed })
}

/// What is kept: everything that is usual, with what was named, and without what was named with `no-`.
fn preserve(typed: &[String], found: &mut Findings) -> Preserve {
    let mut preserve = Preserve::default();
    for name in typed {
        let (bare, keep) = match name.strip_prefix("no-") {
            Some(bare) => (bare, false),
            None => (name.as_str(), true),
        };
        let classes = match bare {
            "all" if keep => continue,
            "owner" => {
                preserve.owner = keep;
                continue;
            }
            "hardlinks" => {
                preserve.hard_links = keep;
                continue;
            }
            "acl" => Classes::ACL,
            "xattr" => Classes::USER | Classes::TRUSTED | Classes::CAPABILITY,
            "selinux" => Classes::SELINUX,
            "mode" | "times" | "links" if keep => continue,
            _ => {
                let words = format!(
                    "{name} is not one of owner, acl, xattr, hardlinks, selinux, or these with no- in front"
                );
                found.usage("--preserve", words);
                continue;
            }
        };
        preserve.extended =
            if keep { preserve.extended | classes } else { preserve.extended.without(classes) };
    }
    preserve
}

/// A moment: so long ago, or a date or time as in ISO 8601, here where no zone is given.
fn when(text: &str) -> Option<Time> {
    let stamp = match parse_duration(text) {
        Ok(age) => jiff::Timestamp::now().checked_sub(age).ok()?,
        Err(_) => match text.parse::<jiff::Timestamp>() {
            Ok(stamp) => stamp,
            Err(_) => {
                let civil = text.parse::<jiff::civil::DateTime>().ok()?;
                civil.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp()
            }
        },
    };
    let nanoseconds = stamp.as_nanosecond().rem_euclid(1_000_000_000);
    let seconds = stamp.as_nanosecond().div_euclid(1_000_000_000);
    Some(Time { seconds: i64::try_from(seconds).ok()?, nanoseconds: u32::try_from(nanoseconds).ok()? })
}

/// What may be deleted; none where nothing ever is.
fn deletion(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Option<Deletion> {
    if mode != Mode::Delta {
        if typed.in_place || typed.whole_file {
            let option = if typed.in_place { "--in-place" } else { "--whole-file" };
            found.usage(option, "it says what hakobu sync does with files that changed");
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
            found.usage("--max-delete", "it is a number, such as 1000, or a share, such as 20%");
        }
        parsed
    });
    // Whoever says when says that it is meant.
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
        let detail = "it is not in this version; memory is bounded without it and does not grow \
                      with the number of files";
        found.usage("--memory", detail);
    }
}

/// What the run is held to.
fn limits(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Limits {
    if typed.limits.bwlimit.is_some() && mode.only_reads() {
        found
            .usage("--bwlimit", "only digests travel, so there is nothing to limit; --nice yields to others");
    }
    typed.limits.read().unwrap_or_else(|errors| {
        found.errors.extend(errors);
        Limits::default()
    })
}

/// How content is compressed on its way.
fn compression(typed: &CopyArguments, mode: Mode, found: &mut Findings) -> Compression {
    let parsed = Compression::parse(&typed.compress).unwrap_or_else(|error| {
        found.usage("--compress", error.detail);
        Compression::Auto
    });
    if mode.only_reads() && matches!(parsed, Compression::Adapted | Compression::Level(_)) {
        found.usage("--compress", "only digests travel, so there is nothing to compress; leave it out");
    }
    parsed
}

fn lanes(text: &str) -> Result<Lanes, Error> {
    match text.parse() {
        _ if text == "auto" => Ok(Lanes::Auto),
        Ok(count @ 1..=LANES_MAX) => Ok(Lanes::Count(count)),
        _ => Err(usage("--lanes", format!("it is auto or a number from 1 to {LANES_MAX}"))),
    }
}

fn requirement(name: &str) -> Result<LossKind, Error> {
    if let Some(kind) = REQUIREMENTS.into_iter().find(|kind| kind.name() == name) {
        return Ok(kind);
    }
    if matches!(name, "direct" | "nanoseconds" | "devices" | "special") {
        let detail = format!("{name} cannot be promised by this version");
        return Err(Error::new(ErrorKind::Requirement, "option", detail).at("--require"));
    }
    let known: Vec<_> = REQUIREMENTS.iter().map(|kind| kind.name()).collect();
    Err(usage("--require", format!("{name} is not one of {}", known.join(", "))))
}

/// A host name or an address, with or without brackets, and without a port.
fn data_address(text: &str) -> Result<String, Error> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let wrong = |detail| Err(usage("--data-address", detail));
    if bare.is_empty() || bare.starts_with('-') {
        return wrong("it is a host name or an address of the other machine");
    }
    if bare.contains(|c: char| c.is_control() || c.is_whitespace() || "/[]@".contains(c)) {
        return wrong("it is a host name or an address, and nothing else");
    }
    if bare.matches(':').count() == 1 {
        return wrong("the port is --data-port N");
    }
    Ok(bare.to_owned())
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
