//! The verb `probe`, from the arguments to the exit code.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hakobu_agent::probe::{self as measuring, ProbeRequest, Probed};
use hakobu_core::error::Result;
use hakobu_core::event::{Event, Observer};
use hakobu_core::location::{Location, SshHost};
use hakobu_core::path::lossy;

mod figures;
mod held;
mod json;
mod obstacle;
mod page;

use crate::limits::LimitArguments;
use crate::login::LoginArguments;
use crate::report::page::Section;
use crate::report::write::{self, Form};
use crate::report::{html, text};
use crate::words::Machines;
use crate::{exit, looking, settings, settings_file};

/// What is under way ends when it is interrupted, and scratch files have no names.
const FAREWELL: Duration = Duration::from_secs(5);

/// What stands below the help.
pub const HELP: &str = "\
Takes about ten seconds, on long ways some more, and says first what it will do. Measured are: the
round trip, and the rate of 1, 2, 4, ... connections in both directions until more are no faster;
how SOURCE is read, past what is in memory, and what a tree holds; how TARGET is written, with a
scratch file that has no name and a few hundred small ones; on both machines the ciphers, BLAKE3,
zstd and copying in memory. From that follows what a copy will get, what limits it, and how long the
first copy of a tree and a run that finds nothing to do will take. Where the copy would fail, as for
want of room or rights, the first line says so. A disk as TARGET is only read, unless --confirm
names it: then what it holds is read and written back to where it was, and so its content stays as
it is. It must not be in use: what somebody else writes meanwhile would be lost.

Examples:
  hakobu probe host:/backup                 the way there, and what TARGET takes
  hakobu probe data/ host:/backup           how long data/ will take
  hakobu probe one:/data two:/data          between two other machines
  hakobu probe --gentle data/ host:/backup  beside other users, with little load
  hakobu probe --html probe.html /mnt/old /mnt/new
  hakobu probe disk.img host:/dev/sdb --confirm ID

Exit codes: 0 measured, even if a copy would fail; 1 failed, or a machine was lost (what was
measured is printed), 2 wrong usage, 6 refused: a disk in use, another one than --confirm names, a
page that would overwrite a disk or something else than a page; 130 interrupted.";

/// The arguments of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// What would be copied, if named, and where to: a path, host:path or ssh://host:port/path
    #[arg(value_name = "[SOURCE] TARGET", required = true, num_args = 1..=2)]
    pub places: Vec<OsString>,

    /// Little load, for less long: one connection and one thread, with pauses; the line is not filled
    #[arg(long)]
    pub gentle: bool,

    /// Write nothing at TARGET, not even a scratch file
    #[arg(long)]
    pub no_write: bool,

    /// The disk that is TARGET, by its ID (see hakobu disks): write to it what it holds
    #[arg(long, value_name = "ID", conflicts_with = "no_write")]
    pub confirm: Vec<String>,

    /// So many lanes, as hakobu copy --lanes has them: a number, or auto
    #[arg(long, value_name = "N", default_value = "auto")]
    pub lanes: String,

    /// What the copy would be held to: a rate is predicted, by what a timetable has now; the others are said.
    #[command(flatten)]
    pub limits: LimitArguments,

    /// How the copy would compress, as hakobu copy --compress; it is said, and not predicted
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub compress: String,

    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,

    /// Write it to this file as well, as one page of HTML with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// The login on the other machines.
    #[command(flatten)]
    pub login: LoginArguments,
}

/// Measures, and says what a copy will get; returns the exit code.
pub fn probe(typed: &ProbeArguments) -> u8 {
    let request = match settings::probe_request(typed, settings_file::ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    // Found out before anything is measured.
    if let Some(Err(error)) = typed.html.as_deref().map(|path| write::try_out(path, Form::Html)) {
        return exit::errors(&[error]);
    }
    let hosts: Vec<&SshHost> =
        request.source.iter().chain([&request.target]).filter_map(Location::ssh_host).collect();
    looking::look_partly(&hosts, request.sudo, FAREWELL, |terminal, observer, cancel| {
        announce(&request, observer);
        let probed = measuring::probe(&request, terminal, observer, cancel)?;
        let shown = shown(typed, &probed, &looking::machines(&hosts, request.sudo))?;
        Ok((shown, probed.failure))
    })
}

fn shown(typed: &ProbeArguments, probed: &Probed, machines: &Machines) -> Result<String> {
    let page = page::page(probed, machines);
    if let Some(path) = &typed.html {
        let mut kept = page.clone();
        kept.sections.insert(0, Section::measured(jiff::Timestamp::now()));
        write::write(path, None, (Form::Html, html::write(&kept).as_bytes()))?;
    }
    match typed.json {
        true => json::json(probed),
        false => Ok(text::write(&page)),
    }
}

/// What will be done with the target. Of another machine nobody knows yet what it is there.
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

/// Says what will be done, before any of it is.
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
