//! The verb `serve`: a control plane, with a broker of its own.

pub mod arguments;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hakobu_agent::machine;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_fleet::bus::nats::groups_file::groups;
use hakobu_fleet::bus::nats::leader::NatsGroup;
use hakobu_fleet::bus::nats::random_number;
use hakobu_fleet::data_folder::DataFolder;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::key_file::SealingKeys;
use hakobu_fleet::key_mark::keys_of_secrets;
use hakobu_fleet::leader::LeaderSettings;
use hakobu_fleet::ledger::place::LedgerPlace;
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::notification::delivery::DeliveryLimits;
use hakobu_fleet::notification::mail::MailServerSetting;
use hakobu_fleet::notifier::{NotifierSettings, SECRET_VARIABLES};
use hakobu_fleet::secrets::SecretPlaces;
use hakobu_fleet::service::{BuiltInBroker, ControlService, ServiceParts, ServiceSettings};
use hakobu_fleet::tls_listener::may_do_without_tls;
use hakobu_fleet::worker::WorkerSettings;

use self::arguments::ServeArguments;
use crate::commands::shared::process_log::{LoggedProcess, ProcessLog};
use crate::fleet_errands::LocalErrands;
use crate::fleet_reader::FleetReader;
use crate::signals;

/// The time for which a unit runs before it is asked to give something away.
const SPLIT_AFTER: Duration = Duration::from_millis(500);

/// Runs a control plane until it is asked to end; returns the exit code.
pub fn serve(typed: &ServeArguments) -> u8 {
    let name = typed.name.clone().unwrap_or_else(|| machine::facts().host_name);
    let log =
        Arc::new(ProcessLog::new(typed.json, LoggedProcess::ControlPlane { control_plane: name.clone() }));
    match run(typed, name, &log) {
        Ok(()) => 0,
        Err(error) => log.fail(&error),
    }
}

fn run(typed: &ServeArguments, name: String, log: &Arc<ProcessLog>) -> Result<()> {
    let database = typed.ledger.as_deref().map(LedgerPlace::parse).transpose()?;
    let folder = DataFolder::open(&data_path(typed.data.as_deref())?)?;
    let place = database.unwrap_or_else(|| LedgerPlace::Directory(folder.path().to_owned()));
    if let Some(to) = &typed.backup {
        return place.back_up(to);
    }
    if let Some(from) = &typed.restore {
        return restore(&place, from, log);
    }
    if typed.rotate_key {
        let file = typed.key_file.clone().unwrap_or_else(|| folder.key_file());
        return SealingKeys::rotate(&file).map(drop);
    }
    if typed.tls_certificate.is_none() && !may_do_without_tls(&typed.listen) {
        let error = Error::new(ErrorKind::Usage, "listening", "beyond this machine, TLS is needed");
        return Err(error
            .at(typed.listen.to_string())
            .hint("name a certificate with --tls-certificate and --tls-key"));
    }
    let had_key = folder.key_file().exists();
    let keys = match &typed.key_file {
        Some(path) => SealingKeys::load(path)?,
        None => folder.keys()?,
    };
    if typed.key_file.is_none() && !had_key {
        warn_of_other_keys(&place, log);
    }
    let lease = Duration::from_secs(typed.lease_seconds);
    let leader = LeaderSettings { lease, split_after: SPLIT_AFTER, key: keys.lease_key()? };
    let settings = ServiceSettings {
        place,
        name,
        leader,
        listen: typed.listen,
        tls: typed.tls_certificate.clone().zip(typed.tls_key.clone()),
        hosts: typed.host.clone(),
        nats: nats_groups(typed)?,
        broker: built_in_broker(typed)?,
        notifications: notifications(typed, &folder, keys)?,
    };
    let (ending, stopping) =
        signals::ending_flags().map_err(|error| Error::io("installing signal handlers", &error))?;
    let parts = ServiceParts {
        reader: Arc::new(FleetReader),
        errands: Arc::new(LocalErrands),
        observer: log.clone(),
        stopping,
    };
    ControlService::new(settings, parts)?.run(&ending)
}

/// Makes the ledger from a backup, which has no key file.
fn restore(place: &LedgerPlace, from: &Path, log: &ProcessLog) -> Result<()> {
    let from = (from != Path::new("-")).then_some(from);
    place.restore(from, MachineClock.moment())?;
    let keys: Vec<String> = keys_of_secrets(&mut *place.reader()?)?.into_iter().collect();
    if !keys.is_empty() {
        let words = format!(
            "the ledger has secrets that are sealed with the key {}, and no backup has the key file: put it back before the next \
             start, or set these secrets again",
            keys.join(", ")
        );
        log.note(&words);
    }
    Ok(())
}

/// Warns of secrets in a ledger that no key opens, because the key file is new.
fn warn_of_other_keys(place: &LedgerPlace, log: &ProcessLog) {
    // An error of the ledger is told when it is opened to be used.
    let Ok(keys) = place.reader().and_then(|mut ledger| keys_of_secrets(&mut *ledger)) else { return };
    if !keys.is_empty() {
        let keys: Vec<String> = keys.into_iter().collect();
        log.note(&format!(
            "a new key file was made, and the ledger has secrets that are sealed with the key {}: set these secrets again, or \
             restore the ledger and put its key file back before the next start",
            keys.join(", ")
        ));
    }
}

fn notifications(typed: &ServeArguments, folder: &DataFolder, keys: SealingKeys) -> Result<NotifierSettings> {
    let places =
        SecretPlaces { folder: Some(folder.secrets()), variables: vec![SECRET_VARIABLES.to_owned()] };
    let mail = typed.mail_settings.as_deref().map(mail_settings).transpose()?;
    Ok(NotifierSettings { places, keys: Arc::new(keys), mail, limits: DeliveryLimits::default() })
}

fn mail_settings(path: &Path) -> Result<MailServerSetting> {
    const READING: &str = "reading the settings of the mail server";
    let at = |error: Error| error.at(path.as_os_str().as_encoded_bytes());
    let bytes = std::fs::read(path).map_err(|error| at(Error::io(READING, &error)))?;
    let wrong = |words: String| at(Error::new(ErrorKind::Usage, READING, words));
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}

/// Returns the folder of the control plane.
fn data_path(typed: Option<&Path>) -> Result<PathBuf> {
    if let Some(typed) = typed {
        return Ok(typed.to_owned());
    }
    let state = machine::state_directory().map(|state| state.path().join("fleet"));
    state.ok_or_else(|| {
        let words = "there is no home directory";
        let error = Error::new(ErrorKind::Usage, "opening the folder of the control plane", words);
        error.hint("name a folder with --data")
    })
}

fn nats_groups(typed: &ServeArguments) -> Result<Vec<NatsGroup>> {
    if typed.nats.nats.is_none() && typed.nats_groups.is_none() {
        return Ok(Vec::new());
    }
    groups(&typed.nats.options(), (&typed.nats_group, typed.nats_replicas), typed.nats_groups.as_deref())
}

fn built_in_broker(typed: &ServeArguments) -> Result<Option<BuiltInBroker>> {
    if typed.no_broker {
        return Ok(None);
    }
    let worker = WorkerSettings {
        name: BrokerName::new("built-in")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        slots: typed.slots,
        process: random_number()?,
        reach: crate::commands::broker::reach(&typed.reaches)?,
    };
    let drain = Duration::from_secs(typed.drain_seconds);
    Ok(Some(BuiltInBroker { group: GroupName::new(typed.group.clone())?, worker, drain }))
}
