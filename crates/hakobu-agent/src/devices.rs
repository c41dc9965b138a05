//! Block devices as source or target: what has to be agreed before one is read or written.

use hakobu_core::disk::{DeviceFacts, DeviceIdentity, DeviceNumber};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::Mode;
use hakobu_core::landing::TargetFound;
use hakobu_core::units::format_bytes;
use hakobu_endpoints::block::contract::{
    ConsentNeeded, RefusalKind, Verdict, Wanted, source_verdict, stray_refusal, target_verdict,
};
use hakobu_proto::control::{SourceLook, TargetLook};
use rustix::fs::{major, minor};

use crate::request::CopyRequest;
use crate::ssh::Prompts;

/// The disk that the user agreed to overwrite. It stays agreed while a lost connection is tried
/// again, although what is on the disk is another thing by then.
#[derive(Debug, Default)]
pub struct Agreed(Option<String>);

/// Checks all devices of a copy. Gives what the target's disk is known by, if it is to be written.
///
/// # Errors
/// `Refused`, with every reason, when one of them must not be read or written.
pub fn check(
    request: &CopyRequest,
    (sources, target): (&[SourceLook], &TargetLook),
    agreed: &mut Agreed,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<Option<String>> {
    for (source, typed) in sources.iter().zip(&request.sources) {
        if let Some(facts) = &source.device {
            let verdict = source_verdict(facts, request.live);
            tell(&verdict, observer);
            if let Some(error) = verdict.error("reading the device") {
                return Err(error.at(typed.as_typed()));
            }
        }
    }
    if request.mode == Mode::Compare {
        return Ok(None);
    }
    let refused = |error: Error| error.at(request.target.as_typed());
    if target.stray && !matches!(target.found, TargetFound::Directory) {
        let words = stray_refusal(request.target.as_typed()).words;
        return Err(refused(Error::new(ErrorKind::Refused, "writing to", words)));
    }
    let (TargetFound::BlockDevice, Some(facts)) = (target.found, &target.device) else { return Ok(None) };
    let mut verdict = target_verdict(facts, &wanted(request, sources, target, agreed));
    tell(&verdict, observer);
    if verdict.refusals.is_empty()
        && let Some(consent) = verdict.consent.take()
    {
        ask(request, facts, &consent, prompts, observer).map_err(refused)?;
    }
    if agreed.0.as_ref() == Some(&facts.identity.place_id) && is_held_open(&verdict) {
        let words = "the process that wrote to it when the connection was lost still has it open";
        return Err(refused(Error::new(ErrorKind::Locked, "writing to the device", words)));
    }
    if let Some(error) = verdict.error("writing to the device") {
        return Err(refused(error));
    }
    agreed.0 = Some(facts.identity.place_id.clone());
    Ok(Some(facts.identity.place_id.clone()))
}

fn wanted(request: &CopyRequest, sources: &[SourceLook], target: &TargetLook, agreed: &Agreed) -> Wanted {
    let source = sources.first().and_then(|source| source.device.as_deref());
    let identity = target.device.as_ref().map(|facts| &facts.identity);
    let is_agreed = |id: &String| {
        identity.is_some_and(|identity| *id == identity.id || *id == identity.place_id)
            || target.unfinished.as_ref() == Some(id)
    };
    let earlier = agreed.0.as_ref().filter(|id| identity.is_some_and(|identity| **id == identity.place_id));
    let confirmed = match request.confirmed.iter().find(|id| is_agreed(id)).or(earlier) {
        Some(_) => identity.map(|identity| identity.id.clone()),
        None => request.confirmed.first().cloned(),
    };
    let file_behind = identity.filter(|identity| sources.iter().any(|source| is_behind(source, identity)));
    Wanted {
        source_bytes: sources.iter().map(|source| source.size_bytes).fold(0, u64::saturating_add),
        source_logical_sector_bytes: source.map(|source| source.logical_sector_bytes),
        source_has_partition_table: source.is_some_and(|source| source.table.is_some()),
        source_identity: source.map(|source| &source.identity).or(file_behind).cloned(),
        confirmed,
    }
}

/// Whether nothing speaks against the disk but that a process has it open, and so keeps others from it.
fn is_held_open(verdict: &Verdict) -> bool {
    let kinds = || verdict.refusals.iter().map(|refusal| refusal.kind);
    let held = |kind| matches!(kind, RefusalKind::OpenForWriting | RefusalKind::Claimed);
    kinds().any(|kind| kind == RefusalKind::OpenForWriting) && kinds().all(held)
}

/// Whether a source is the file behind a loop device.
fn is_behind(source: &SourceLook, device: &DeviceIdentity) -> bool {
    let (Some(file), Some(found)) = (device.backing, source.ancestry.upwards.first()) else { return false };
    let number = DeviceNumber { major: major(found.device), minor: minor(found.device) };
    found.boot_id == device.boot_id && number == file.device && found.inode == file.inode
}

fn tell(verdict: &Verdict, observer: &dyn Observer) {
    for words in &verdict.notices {
        observer.event(Event::Notice { words: words.clone() });
    }
}

/// Shows the disk, and asks for its ID.
fn ask(
    request: &CopyRequest,
    facts: &DeviceFacts,
    consent: &ConsentNeeded,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<()> {
    let during = "writing to the device";
    let words = described(request, facts, consent);
    if request.dry_run {
        for words in words.lines().chain(["before it is overwritten its ID is asked for"]) {
            observer.event(Event::Notice { words: words.trim().to_owned() });
        }
        return Ok(());
    }
    let refusal = || Error::new(ErrorKind::Refused, during, consent.refusal.words.clone());
    let typed = prompts.disk_id(&words).ok_or_else(refusal)?;
    if typed.trim() == consent.id {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Refused, during, "that is not the ID of the disk; nothing was written"))
}

fn described(request: &CopyRequest, facts: &DeviceFacts, consent: &ConsentNeeded) -> String {
    let model = hakobu_core::path::lossy(&facts.model);
    let holds: Vec<_> = consent.holds.iter().map(|line| format!("  holds {line}")).collect();
    format!(
        "{} will be overwritten:\n  {}  {} {model}\n{}",
        request.target,
        consent.id,
        format_bytes(facts.size_bytes),
        holds.join("\n")
    )
}
