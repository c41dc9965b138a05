//! Carries out the errands of a fleet with the parts of `ls`, `copy --dry-run` and `probe`.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, NoObserver, Observer};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::location::Location;
use hakobu_core::outcome::RunEnvironment;
use hakobu_core::prompts::NoPrompts;
use hakobu_core::report::Report;
use hakobu_core::request::CopyRequest;
use hakobu_core::store_settings::StoreSettings;
use hakobu_fleet::api::byte_text::ByteText;
use hakobu_fleet::api::problem::Problem;
use hakobu_fleet::errand::{
    BROWSE_ENTRIES_MAX, BrowseEntry, Errand, ErrandResult, ErrandRunner, LocationTest, PREVIEW_CHANGES_MAX,
    PreviewChange,
};
use hakobu_fleet::run_request::RequestReader;
use hakobu_fleet::sent_credentials::EndCredentials;
use hakobu_transfer::list::{self, LsRequest};
use hakobu_transfer::probe::{self, ProbeRequest};

use crate::clock::now;
use crate::commands::copy::{base_report, complete};
use crate::commands::ls::kind_name;
use crate::commands::probe::{json, store_json};
use crate::fleet_reader::FleetReader;
use crate::run;

/// Carries out errands in this process.
pub struct LocalErrands;

impl ErrandRunner for LocalErrands {
    fn run(
        &self,
        errand: &Errand,
        credentials: EndCredentials,
        cancel: &Arc<AtomicBool>,
    ) -> Result<ErrandResult> {
        let mut request = FleetReader.read(&errand.request())?;
        credentials.apply(&mut request);
        match errand {
            Errand::Browse { is_target, .. } => browse(&request, *is_target, cancel),
            Errand::Test { .. } => test(&request, cancel),
            Errand::Preview { .. } => preview(request, cancel),
            Errand::Probe { .. } => measured(&request, cancel),
        }
    }
}

fn browse(request: &CopyRequest, is_target: bool, cancel: &Arc<AtomicBool>) -> Result<ErrandResult> {
    let source = request.sources.first().map(|source| (source, &request.source_store));
    let (location, store) = match source {
        Some(source) if !is_target => source,
        _ => (&request.target, &request.target_store),
    };
    let (entries, is_cut) = entries(&listing_of(location, store, request), cancel)?;
    Ok(ErrandResult::Browse { entries, is_cut })
}

/// Lists a directory, or the single entry that is none.
fn entries(request: &LsRequest, cancel: &Arc<AtomicBool>) -> Result<(Vec<BrowseEntry>, bool)> {
    let (mut entries, mut is_cut) = (Vec::new(), false);
    let mut show = |listed: list::DirectoryEntries<'_>| {
        let listing = listed.listing;
        is_cut = listing.len() > BROWSE_ENTRIES_MAX;
        entries.extend((0..listing.len().min(BROWSE_ENTRIES_MAX)).map(|index| {
            let metadata = listing.metadata(index);
            let ms = metadata.mtime.as_nanoseconds() / 1_000_000;
            BrowseEntry {
                name: ByteText(listing.name(index).to_vec()),
                kind: kind_name(metadata.kind).to_owned(),
                size_bytes: if metadata.kind == EntryKind::File { metadata.size_bytes } else { 0 },
                modified_ms: i64::try_from(ms)
                    .ok()
                    .filter(|_| metadata.kind != EntryKind::Directory || ms != 0),
            }
        }));
        Ok(())
    };
    list::list(request, (&mut NoPrompts, &NoObserver), cancel, &mut show, &mut |_, _| {})?;
    Ok((entries, is_cut))
}

fn test(request: &CopyRequest, cancel: &Arc<AtomicBool>) -> Result<ErrandResult> {
    let sources = request.sources.iter().map(|source| (source, &request.source_store, false));
    let all = sources.chain([(&request.target, &request.target_store, true)]);
    let locations = all.map(|(location, store, is_target)| {
        let tried = entries(&listing_of(location, store, request), cancel);
        let location = ByteText(location.as_typed().to_vec());
        match tried {
            Ok(_) => LocationTest { location, is_target, is_there: true, error: None },
            Err(error) if is_target && error.kind == ErrorKind::NotFound => {
                let error = missing_parent(request, cancel).map(|error| Problem::from(&error));
                LocationTest { location, is_target, is_there: false, error }
            }
            Err(error) => {
                LocationTest { location, is_target, is_there: false, error: Some(Problem::from(&error)) }
            }
        }
    });
    Ok(ErrandResult::Test { locations: locations.collect() })
}

/// Returns the error of a run whose target is not there, because the directory above it is not there either, or cannot be listed.
/// Stores have no directories that must exist.
fn missing_parent(request: &CopyRequest, cancel: &Arc<AtomicBool>) -> Option<Error> {
    let target = &request.target;
    if target.store().is_some() {
        return None;
    }
    let parent = target.beside(&target.parent_path()?);
    let error = entries(&listing_of(&parent, &request.target_store, request), cancel).err()?;
    Some(match error.kind {
        ErrorKind::NotFound => {
            let words = "its parent directory does not exist; create it first";
            Error::new(ErrorKind::NotFound, "looking at the target", words).at(target.as_typed())
        }
        _ => error,
    })
}

fn listing_of(location: &Location, store: &StoreSettings, request: &CopyRequest) -> LsRequest {
    let mut listing = LsRequest::new(location.clone());
    listing.copy.source_store = store.clone().for_reading();
    // The listing opens the place of its location as a target, too.
    listing.copy.target_store = listing.copy.source_store.clone();
    listing.copy.unattended = true;
    listing.copy.sudo = request.sudo;
    listing
}

/// Keeps the first changes that a run would make.
#[derive(Default)]
struct PlannedChanges(Mutex<(Vec<PreviewChange>, bool)>);

impl Observer for PlannedChanges {
    fn event(&self, event: Event) {
        let Event::Planned { action, path, .. } = event else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.0.len() {
            ..PREVIEW_CHANGES_MAX => kept.0.push(PreviewChange { change: action, path: ByteText(path) }),
            _ => kept.1 = true,
        }
    }
}

fn preview(request: CopyRequest, cancel: &Arc<AtomicBool>) -> Result<ErrandResult> {
    let request = CopyRequest { dry_run: true, ..request };
    let observer = PlannedChanges::default();
    let limits = Arc::new(LiveLimits::new(request.limits.clone(), Instant::now));
    let mut environment =
        RunEnvironment { prompts: &mut NoPrompts, observer: &observer, cancel: cancel.clone(), limits };
    let began = Instant::now();
    let base = Report { started_at: now(), ..base_report(&request, &[]) };
    let mut report = run::copy(&request, &mut environment);
    complete(&mut report, base, began.elapsed());
    let report = serde_json::to_value(&report).map_err(|error| unwritten(&error))?;
    let (changes, is_cut) = observer.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(ErrandResult::Preview { report, changes, is_cut })
}

/// Measures with little load. Where it writes, the file has no name.
fn measured(request: &CopyRequest, cancel: &Arc<AtomicBool>) -> Result<ErrandResult> {
    let request = ProbeRequest {
        source: request.sources.first().cloned(),
        target: request.target.clone(),
        gentle: true,
        write: true,
        lanes: request.lanes,
        limits: request.limits.clone(),
        compression: request.compression,
        confirmed: Vec::new(),
        source_store: request.source_store.clone(),
        target_store: request.target_store.clone(),
        ssh: request.ssh.clone(),
        agent: None,
        sudo: request.sudo,
        logins: Vec::new(),
    };
    let text = match probe::store::concerns(&request) {
        true => store_json(&probe::store::probe(&request, &mut NoPrompts, &NoObserver, cancel)?)?,
        false => json(&probe::probe(&request, &mut NoPrompts, &NoObserver, cancel)?)?,
    };
    let report = serde_json::from_str(&text).map_err(|error| unwritten(&error))?;
    Ok(ErrandResult::Probe { report })
}

fn unwritten(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Io, "writing an answer", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(json: serde_json::Value) -> Result<ErrandResult> {
        LocalErrands.run(&serde_json::from_value(json).unwrap(), EndCredentials::default(), &Arc::default())
    }

    #[test]
    fn errands_look_and_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::create_dir_all(source.join("below")).unwrap();
        std::fs::write(source.join("below/file"), "content").unwrap();
        std::fs::write(source.join("one"), "1").unwrap();
        let ErrandResult::Browse { entries, is_cut } =
            asked(serde_json::json!({"kind": "browse", "location": source})).unwrap()
        else {
            panic!("it is listed");
        };
        let names: Vec<_> = entries.iter().map(|entry| (&entry.name.0[..], entry.kind.as_str())).collect();
        assert_eq!((names, is_cut), (vec![(&b"below"[..], "directory"), (b"one", "file")], false));
        let request = serde_json::json!({"sources": [source], "target": target});
        let ErrandResult::Test { locations } =
            asked(serde_json::json!({"kind": "test", "request": request})).unwrap()
        else {
            panic!("it is tried");
        };
        assert!(locations[0].is_there && !locations[1].is_there && locations[1].error.is_none());
        let below_nothing = serde_json::json!({"sources": [source], "target": target.join("below/it")});
        let tested = asked(serde_json::json!({"kind": "test", "request": below_nothing})).unwrap();
        let ErrandResult::Test { locations } = tested else { panic!("it is tried") };
        let error = locations[1].error.as_ref().map(|problem| problem.message.clone()).unwrap_or_default();
        assert!(error.contains("its parent directory does not exist; create it first"), "{error}");
        let ErrandResult::Preview { report, changes, .. } =
            asked(serde_json::json!({"kind": "preview", "request": request})).unwrap()
        else {
            panic!("it is planned");
        };
        assert!(changes.iter().any(|change| change.path.0.ends_with(b"below/file")), "{changes:?}");
        assert!(report["schema"].is_string() && !target.exists(), "{report}");
        assert_eq!(report["dry_run"], true, "it says so");
        let missing = serde_json::json!({"kind": "browse", "location": folder.path().join("c")});
        assert_eq!(asked(missing).unwrap_err().kind, ErrorKind::NotFound);
        for location in ["relative", "-", "rsync://h/m"] {
            let error = asked(serde_json::json!({"kind": "browse", "location": location})).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage, "{location}");
        }
    }
}
