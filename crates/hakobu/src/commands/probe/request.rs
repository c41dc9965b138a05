//! The request of `probe`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use hakobu_core::compression::Compression;
use hakobu_core::error::Error;
use hakobu_core::location::Location;
use hakobu_core::pace::RunLimits;
use hakobu_transfer::probe::ProbeRequest;

use super::arguments::ProbeArguments;
use crate::commands::shared::findings::{Findings, usage};
use crate::commands::shared::lanes::lanes;
use crate::commands::shared::login::{agent, ssh};
use crate::commands::shared::store::ObjectArguments;
use crate::settings_file::name_places;

/// Returns the request that the arguments of `probe` stand for.
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
        RunLimits::default()
    });
    let written = ObjectArguments::default();
    let (source_store, target_store) =
        found.stores((&typed.store, &written), (source.as_ref(), target.as_ref()));
    let request = ProbeRequest {
        source_store,
        target_store,
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
        found.usage("--sudo", "applies to another host; on this machine run sudo hakobu probe");
    }
    name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}
