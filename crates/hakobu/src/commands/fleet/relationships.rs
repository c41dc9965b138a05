//! `fleet relationships`: their arguments, and what they do.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::units::parse_bytes;
use hakobu_fleet::api::relationship_view::{
    CredentialView, RelationshipInput, RelationshipSummary, RelationshipUpdate, RelationshipView,
};
use hakobu_fleet::api::relationships::ScheduleStarts;
use hakobu_fleet::client::{FleetClient, with_query};
use hakobu_fleet::limits_setting::LimitsSetting;
use hakobu_fleet::schedule::{MissedStart, SCHEDULE_VERSION, ScheduleSetting};

use super::connection::read_file;
use super::printing::{NOTHING, json_lines, json_object, name_of, table, text, time};
use super::request::request;

/// The maximum number of relationships that are listed.
const LISTED_MAX: usize = 100_000;

/// The text below the help.
pub(crate) const ADD_HELP: &str = "\
Behind -- stands what each run does: copy or sync, with their options, sources and target. Local paths are those of the \
brokers, and begin with /. A run is refused that asks what nobody answers: sync deletes with --delete.

Examples:
  hakobu fleet relationships add home --group site-a -- copy /home/ backup:/srv/home
  hakobu fleet relationships add data --group site-a --schedule '0 3 * * *' --time-zone Asia/Tokyo -- \
sync --delete /srv/data/ s3://bucket/data";

/// The actions on relationships.
#[derive(Debug, Subcommand)]
pub enum RelationshipsVerb {
    /// List relationships with their states
    List(ListArguments),
    /// Add a relationship
    #[command(after_help = ADD_HELP)]
    Add {
        /// Its name
        name: String,
        /// The settings.
        #[command(flatten)]
        settings: RelationshipSettings,
        /// Command of its runs, behind --
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Show a relationship
    Show {
        /// Its name
        name: String,
    },
    /// Change settings of a relationship; the others stay
    Change {
        /// Its name
        name: String,
        /// New name
        #[arg(long, value_name = "NAME")]
        rename: Option<String>,
        /// The settings.
        #[command(flatten)]
        settings: RelationshipSettings,
        /// New command of its runs, behind --
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Remove a relationship; its runs stay
    Remove {
        /// Its name
        name: String,
    },
    /// Show the next starts of a schedule
    Preview {
        /// Line of cron: minute hour day month weekday
        schedule: String,
        /// Time zone, such as Asia/Tokyo
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        time_zone: String,
        /// Number of starts
        #[arg(long, value_name = "N", default_value_t = 5)]
        count: u32,
    },
}

/// The choice of relationships to list.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Only those with this text in name, owner or locations
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only those in these states: failed, partial, running, paused, cancelled, new, complete
    #[arg(long, value_name = "LIST")]
    pub state: Option<String>,
    /// Only those of a group
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Order: name, state, last_run, next_start, changed
    #[arg(long, value_name = "ORDER", default_value = "name")]
    pub order: String,
}

/// The settings of a relationship. Empty values take one away.
#[derive(Debug, Args)]
pub struct RelationshipSettings {
    /// Group of brokers that reach source and target
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Line of cron: minute hour day month weekday; empty for none
    #[arg(long, value_name = "CRON")]
    pub schedule: Option<String>,
    /// Time zone of the schedule, such as Asia/Tokyo
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// Leave out starts that were missed, instead of making up for them once
    #[arg(long)]
    pub skip_missed: bool,
    /// File with the whole schedule as JSON, with blackout windows
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedule", "time_zone", "skip_missed"])]
    pub schedule_file: Option<PathBuf>,
    /// Limit of the rate over all brokers, such as 20M (bytes per second)
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<String>,
    /// Limit of the operations per second over all brokers
    #[arg(long, value_name = "N")]
    pub limit_operations: Option<u32>,
    /// Slow down while source reads are slower than MS
    #[arg(long, value_name = "MS")]
    pub limit_source_p99: Option<f64>,
    /// Number of brokers that work at a time
    #[arg(long, value_name = "N")]
    pub limit_brokers: Option<u32>,
    /// File with the notification as JSON
    #[arg(long, value_name = "FILE")]
    pub notify: Option<PathBuf>,
    /// Person who answers for it
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// File with credentials, on the brokers
    #[arg(long, value_name = "PATH")]
    pub credentials_file: Vec<String>,
    /// Variable of the brokers' environment with credentials
    #[arg(long, value_name = "NAME")]
    pub credentials_variable: Vec<String>,
    /// Compare source and target at the end of each run
    #[arg(long)]
    pub verify: bool,
}

/// Carries out an action; returns what is to be printed.
pub(super) fn relationships(client: &FleetClient, verb: &RelationshipsVerb, json: bool) -> Result<String> {
    match verb {
        RelationshipsVerb::List(typed) => list(client, typed, json),
        RelationshipsVerb::Add { name, settings, command } => {
            let none = || Error::new(ErrorKind::Usage, "adding a relationship", "no group is named");
            let group = settings.group.clone().ok_or_else(|| none().hint("add --group NAME"))?;
            let mut input = RelationshipInput {
                name: name.clone(),
                group,
                request: request(command, settings.verify)?,
                schedule: None,
                limits: None,
                notification: None,
                owner: String::new(),
                credentials: Vec::new(),
            };
            apply(settings, &mut input)?;
            shown(&client.send("POST", "/api/v1/relationships", &input)?, json)
        }
        RelationshipsVerb::Show { name } => shown(&named(client, name)?, json),
        RelationshipsVerb::Change { name, rename, settings, command } => {
            let before = named(client, name)?;
            let mut input = before.relationship;
            if let Some(name) = rename {
                input.name.clone_from(name);
            }
            if !command.is_empty() {
                input.request = request(command, settings.verify)?;
            }
            input.request.verify |= settings.verify;
            apply(settings, &mut input)?;
            let update = RelationshipUpdate { revision: before.revision, relationship: input };
            let path = format!("/api/v1/relationships/{}", before.id);
            shown(&client.send("PUT", &path, &update)?, json)
        }
        RelationshipsVerb::Remove { name } => {
            let RelationshipView { id, revision, .. } = named(client, name)?;
            let path = format!("/api/v1/relationships/{id}?revision={revision}");
            client.order("DELETE", &path, None::<&()>).map(|()| String::new())
        }
        RelationshipsVerb::Preview { schedule, time_zone, count } => {
            let setting = ScheduleSetting {
                version: SCHEDULE_VERSION,
                cron: schedule.clone(),
                time_zone: time_zone.clone(),
                blackouts: Vec::new(),
                missed: MissedStart::default(),
            };
            let path = with_query("/api/v1/schedules/preview", &[("count", &count.to_string())]);
            let starts: ScheduleStarts = client.send("POST", &path, &setting)?;
            match json {
                true => json_object(&starts),
                false => {
                    let times = starts.starts_ms.iter().map(|start| format!("{}\n", time(Some(*start))));
                    Ok(format!("{}\n{}", starts.words, times.collect::<String>()))
                }
            }
        }
    }
}

fn list(client: &FleetClient, typed: &ListArguments, json: bool) -> Result<String> {
    let mut query = vec![("order", typed.order.as_str())];
    query.extend(typed.search.as_deref().map(|text| ("search", text)));
    query.extend(typed.state.as_deref().map(|states| ("state", states)));
    query.extend(typed.group.as_deref().map(|group| ("group", group)));
    let found: Vec<RelationshipSummary> = client.list("/api/v1/relationships", &query, LISTED_MAX)?;
    if json {
        return json_lines(&found);
    }
    let rows = found.iter().map(|one| {
        let source = match one.sources {
            0 | 1 => text(&one.source),
            more => format!("{} (+{})", text(&one.source), more - 1),
        };
        let last = one.last_run.as_ref();
        [
            one.name.clone(),
            one.group.clone(),
            name_of(&one.state),
            last.map_or_else(|| NOTHING.to_owned(), |run| run.id.to_string()),
            time(last.map(|run| run.started_ms)),
            time(one.next_start_ms),
            source,
            text(&one.target),
        ]
    });
    Ok(table(["NAME", "GROUP", "STATE", "RUN", "STARTED", "NEXT START", "SOURCE", "TARGET"], rows))
}

/// Returns the relationship with a name.
///
/// # Errors
/// `NotFound`, and those of the control plane.
pub(super) fn named(client: &FleetClient, name: &str) -> Result<RelationshipView> {
    let found: Vec<RelationshipSummary> =
        client.list("/api/v1/relationships", &[("search", name)], LISTED_MAX)?;
    match found.iter().find(|one| one.name == name) {
        Some(one) => client.get(&format!("/api/v1/relationships/{}", one.id)),
        None => {
            Err(Error::new(ErrorKind::NotFound, "looking for the relationship", "there is none of this name")
                .at(name)
                .hint("hakobu fleet relationships list shows all"))
        }
    }
}

/// Puts typed settings into a relationship.
fn apply(typed: &RelationshipSettings, input: &mut RelationshipInput) -> Result<()> {
    if let Some(group) = &typed.group {
        input.group.clone_from(group);
    }
    if let Some(owner) = &typed.owner {
        input.owner.clone_from(owner);
    }
    let wrong = |words: String| Error::new(ErrorKind::Usage, "reading a setting", words);
    if let Some(file) = &typed.schedule_file {
        let setting = serde_json::from_slice(&read_file(file)?).map_err(|error| wrong(error.to_string()))?;
        input.schedule = Some(setting);
    }
    match typed.schedule.as_deref() {
        Some("") => input.schedule = None,
        Some(cron) => {
            let before = input.schedule.take();
            let zone = before.as_ref().map_or_else(|| "UTC".to_owned(), |before| before.time_zone.clone());
            input.schedule = Some(ScheduleSetting {
                version: SCHEDULE_VERSION,
                cron: cron.to_owned(),
                time_zone: zone,
                blackouts: before.map(|before| before.blackouts).unwrap_or_default(),
                missed: MissedStart::default(),
            });
        }
        None => {}
    }
    match (&mut input.schedule, &typed.time_zone) {
        (Some(schedule), Some(zone)) => schedule.time_zone.clone_from(zone),
        (None, Some(_)) => return Err(wrong("--time-zone: there is no schedule".to_owned())),
        (_, None) => {}
    }
    if let Some(schedule) = input.schedule.as_mut().filter(|_| typed.skip_missed) {
        schedule.missed = MissedStart::Skip;
    }
    let limits = read_limits(
        (typed.limit_rate.as_deref(), typed.limit_operations),
        (typed.limit_source_p99, typed.limit_brokers),
        input.limits.clone(),
    )?;
    input.limits = limits;
    if let Some(file) = &typed.notify {
        let setting = serde_json::from_slice(&read_file(file)?).map_err(|error| wrong(error.to_string()))?;
        input.notification = Some(setting);
    }
    let files = typed.credentials_file.iter().map(|path| CredentialView::File { path: path.clone() });
    let variables =
        typed.credentials_variable.iter().map(|name| CredentialView::Environment { name: name.clone() });
    let credentials: Vec<_> = files.chain(variables).collect();
    if !credentials.is_empty() {
        input.credentials = credentials;
    }
    Ok(())
}

/// Returns limits with those that were typed.
///
/// # Errors
/// `Usage` for a rate that is none.
pub(super) fn read_limits(
    (rate, operations): (Option<&str>, Option<u32>),
    (source_p99, brokers): (Option<f64>, Option<u32>),
    before: Option<LimitsSetting>,
) -> Result<Option<LimitsSetting>> {
    let mut limits = before.clone().unwrap_or_default();
    match rate {
        None => {}
        Some("off") => limits.bytes_per_second = None,
        Some(text) => {
            let rate = parse_bytes(text).map_err(|error| {
                Error::new(ErrorKind::Usage, "reading the rate", error.to_string()).at(text)
            })?;
            limits.bytes_per_second = Some(rate);
        }
    }
    limits.operations_per_second = operations
        .filter(|count| *count > 0)
        .or_else(|| limits.operations_per_second.filter(|_| operations.is_none()));
    limits.source_p99_ms =
        source_p99.filter(|ms| *ms > 0.0).or_else(|| limits.source_p99_ms.filter(|_| source_p99.is_none()));
    limits.brokers =
        brokers.filter(|count| *count > 0).or_else(|| limits.brokers.filter(|_| brokers.is_none()));
    Ok((before.is_some() || limits != LimitsSetting::default()).then_some(limits))
}

fn shown(view: &RelationshipView, json: bool) -> Result<String> {
    if json {
        return json_object(view);
    }
    let input = &view.relationship;
    let request = &input.request;
    let sources: Vec<String> = request.sources.iter().map(text).collect();
    let command = [
        vec![request.verb.name().to_owned()],
        request.arguments.clone(),
        sources,
        vec![text(&request.target)],
    ];
    let limits = input.limits.as_ref().map(super::limits::words).unwrap_or_default();
    let last = view.last_run.as_ref();
    let rows = [
        ("name", input.name.clone()),
        ("id", view.id.to_string()),
        ("group", input.group.clone()),
        ("owner", input.owner.clone()),
        ("state", name_of(&view.state)),
        (
            "command",
            hakobu_core::shell::quote_all(
                &command.concat().into_iter().map(OsString::from).collect::<Vec<_>>(),
            ),
        ),
        ("verify", if request.verify { "yes" } else { "no" }.to_owned()),
        ("schedule", view.schedule_words.clone().unwrap_or_else(|| NOTHING.to_owned())),
        ("next start", time(view.next_start_ms)),
        ("limits", if limits.is_empty() { NOTHING.to_owned() } else { limits }),
        ("last run", last.map_or_else(|| NOTHING.to_owned(), |run| run.id.to_string())),
        ("changed", time(Some(view.changed_ms))),
    ];
    Ok(rows.iter().map(|(name, value)| format!("{name:<11} {value}\n")).collect())
}
