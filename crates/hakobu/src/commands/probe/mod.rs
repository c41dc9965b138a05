//! The verb `probe`, from the arguments to the exit code.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use hakobu_core::error::Result;
use hakobu_core::event::{Event, Observer};
use hakobu_core::location::{Location, SshHost};
use hakobu_core::path::lossy;
use hakobu_transfer::probe::{self as measuring, ProbeRequest, ProbeResults};

pub mod arguments;
mod caveats;
mod figures;
mod json;
mod obstacle;
mod page;
mod request;
mod store_page;

use self::arguments::ProbeArguments;
pub(crate) use self::json::json;
pub(crate) use self::store_page::json as store_json;
use crate::commands::shared::looking;
use crate::exit;
use crate::report::page::{PageSection, ReportPage};
use crate::report::write::{self, ReportFormat};
use crate::report::{html, text};
use crate::settings_file::ssh_variable;
use crate::words::Machines;

/// The time that measurements have to end after an interruption. Scratch files have no names, so none is left.
const FAREWELL: Duration = Duration::from_secs(5);

/// Measures and predicts a copy; returns the exit code.
pub fn probe(typed: &ProbeArguments) -> u8 {
    let request = match request::probe_request(typed, ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    // A page that cannot be written is reported before the measurements.
    if let Some(Err(error)) = typed.html.as_deref().map(|path| write::try_out(path, ReportFormat::Html)) {
        return exit::errors(&[error]);
    }
    let hosts: Vec<&SshHost> =
        request.source.iter().chain([&request.target]).filter_map(Location::ssh_host).collect();
    if measuring::store::concerns(&request) {
        return stores(typed, &request);
    }
    looking::look_partly(&hosts, (request.sudo, typed.json), FAREWELL, |terminal, observer, cancel| {
        announce(&request, observer);
        let probed = measuring::probe(&request, terminal, observer, cancel)?;
        let shown = shown(typed, &probed, &looking::machines(&hosts, request.sudo))?;
        Ok((shown, probed.failure))
    })
}

/// Measures object stores; returns the exit code.
fn stores(typed: &ProbeArguments, request: &ProbeRequest) -> u8 {
    looking::look_partly(&[], (false, typed.json), FAREWELL, |terminal, observer, cancel| {
        observer.event(Event::Notice { words: store_page::announcement(request) });
        let probed = measuring::store::probe(request, terminal, observer, cancel)?;
        let page = store_page::page(&probed);
        write_page(typed, &page)?;
        let shown = match typed.json {
            true => store_json(&probed)?,
            false => text::write(&page),
        };
        Ok((shown, None))
    })
}

fn write_page(typed: &ProbeArguments, page: &ReportPage) -> Result<()> {
    let Some(path) = &typed.html else { return Ok(()) };
    let mut kept = page.clone();
    kept.sections.insert(0, PageSection::measured(jiff::Timestamp::now()));
    write::write(path, None, (ReportFormat::Html, html::write(&kept).as_bytes()))
}

fn shown(typed: &ProbeArguments, probed: &ProbeResults, machines: &Machines) -> Result<String> {
    let page = page::page(probed, machines);
    write_page(typed, &page)?;
    match typed.json {
        true => json(probed),
        false => Ok(text::write(&page)),
    }
}

/// Describes the planned writes to the target. For a target on another host, its kind is not known yet.
fn written(target: &Location, most: &str) -> String {
    let name = lossy(target.as_typed());
    if target.ssh_host().is_some() {
        return format!(
            "write up to {most}, a quarter of what is free at most, to {name} (a disk is only read), which leaves nothing behind"
        );
    }
    let found = std::fs::metadata(OsStr::from_bytes(target.path())).map(|found| found.file_type());
    match found {
        Ok(kind) if kind.is_block_device() => {
            format!("read up to {most} of {name}, a disk, which is not written to without --confirm")
        }
        Ok(kind) if kind.is_char_device() => format!("write nothing to {name}, where nothing is kept"),
        _ => format!(
            "write up to {most}, a quarter of what is free at most, to {name}, which leaves nothing behind"
        ),
    }
}

/// Announces what the probe is about to do.
fn announce(request: &ProbeRequest, observer: &dyn Observer) {
    let name = |location: &Location| lossy(location.as_typed());
    let mut steps = Vec::new();
    let apart = request.source.as_ref().and_then(Location::ssh_host) != request.target.ssh_host();
    match (apart, request.gentle) {
        (true, false) => steps.push("fill the way in both directions with up to 32 connections".to_owned()),
        (true, true) => steps.push("send a few megabytes in each direction, with pauses".to_owned()),
        (false, _) => {}
    }
    let most = if request.gentle { "64 MiB" } else { "1 GiB" };
    if let Some(source) = &request.source {
        steps.push(format!("read up to {most} of {}, dropping that from memory first", name(source)));
    }
    steps.push(match request.write {
        _ if !request.confirmed.is_empty() => {
            format!("write up to {most} of what {} holds back to where it is", name(&request.target))
        }
        false => format!("write nothing to {}", name(&request.target)),
        true => written(&request.target, most),
    });
    let time = if request.gentle { "at most some seconds" } else { "about ten seconds" };
    observer.event(Event::Notice { words: format!("for {time}, a probe will {}", steps.join("; ")) });
}
