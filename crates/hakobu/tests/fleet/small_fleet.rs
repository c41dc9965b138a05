//! A fleet on this machine: nats-server, a control plane, and brokers in processes of their own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use hakobu_testkit::nats::{NatsConfiguration, NatsServer};
use serde_json::Value;
use tempfile::TempDir;

use crate::control_plane::{TestControlPlane, operations};
use crate::lease_watch::{LeaseWatch, SeenLease};
use crate::processes::{HAKOBU, TestProcess};
use crate::trees;

/// The group of the brokers.
pub const GROUP: &str = "site-a";
/// The time for a run that is not limited.
pub const RUN_LIMIT: Duration = Duration::from_secs(150);
/// The operations a second of a slow run.
pub const OPERATIONS: u32 = 150;
const DIRECTORIES: usize = 40;
const FILES: usize = 60;

/// A fleet with a tree to copy.
pub struct SmallFleet {
    // In the order of removal.
    pub brokers: BTreeMap<String, TestProcess>,
    pub control: TestControlPlane,
    pub nats: NatsServer,
    /// The others of a cluster.
    pub more_nats: Vec<NatsServer>,
    place: TempDir,
}

impl SmallFleet {
    /// Starts a control plane with leases of so many seconds, and brokers `b0`, `b1`, ….
    pub fn start(lease_seconds: u32, brokers: usize) -> Self {
        Self::start_with(lease_seconds, brokers, &[])
    }

    /// Starts them with further arguments of the control plane.
    pub fn start_with(lease_seconds: u32, brokers: usize, more: &[&str]) -> Self {
        let fleet = Self::start_over(&NatsConfiguration::default(), lease_seconds, brokers, more);
        make_tree(&fleet.source());
        fleet
    }

    /// Starts them with a cluster of three servers of NATS.
    pub fn start_in_cluster(lease_seconds: u32, brokers: usize) -> Self {
        let servers = NatsServer::cluster(&NatsConfiguration::default()).unwrap();
        let fleet = Self::start_at(servers, lease_seconds, brokers, &[]);
        make_tree(&fleet.source());
        fleet
    }

    /// Starts them with a nats-server of this configuration, without a tree.
    pub fn start_over(nats: &NatsConfiguration, lease_seconds: u32, brokers: usize, more: &[&str]) -> Self {
        Self::start_at(vec![NatsServer::start(nats).unwrap()], lease_seconds, brokers, more)
    }

    fn start_at(mut servers: Vec<NatsServer>, lease_seconds: u32, brokers: usize, more: &[&str]) -> Self {
        let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
        let (nats, more_nats) = (servers.remove(0), servers);
        let (url, lease) = (urls(&nats, &more_nats), lease_seconds.to_string());
        let arguments =
            ["--no-broker", "--nats", &url, "--nats-group", GROUP, "--lease-seconds", lease.as_str()];
        let control = TestControlPlane::start(&place.path().join("control"), &[&arguments, more].concat());
        let mut fleet = Self { brokers: BTreeMap::new(), control, nats, more_nats, place };
        (0..brokers).for_each(|number| fleet.add_broker(&format!("b{number}")));
        fleet.control.wait_for_brokers(brokers);
        fleet
    }

    /// Returns the folder of the control plane, the logs of all processes, and the trees.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn source(&self) -> PathBuf {
        self.place.path().join("source")
    }

    pub fn target(&self) -> PathBuf {
        self.place.path().join("target")
    }

    /// Returns the address of nats-server.
    pub fn nats_address(&self) -> SocketAddr {
        self.nats.url().trim_start_matches("nats://").parse().unwrap()
    }

    /// Starts a broker.
    pub fn add_broker(&mut self, name: &str) {
        self.add_broker_by(name, Command::new(HAKOBU), &urls(&self.nats, &self.more_nats));
    }

    /// Starts a broker by a command that leads to the program.
    pub fn add_broker_by(&mut self, name: &str, command: Command, nats: &str) {
        self.add_broker_of(GROUP, name, command, nats);
    }

    /// Starts a broker that reaches some locations only.
    pub fn add_broker_reaching(&mut self, name: &str, locations: &[&Path]) {
        let reaches = locations.iter().flat_map(|location| [OsStr::new("--reaches"), location.as_os_str()]);
        self.start_broker((GROUP, name), Command::new(HAKOBU), &self.nats.url(), reaches);
    }

    /// Starts a broker of a group.
    pub fn add_broker_of(&mut self, group: &str, name: &str, command: Command, nats: &str) {
        self.start_broker((group, name), command, nats, []);
    }

    fn start_broker<'a>(
        &mut self,
        (group, name): (&str, &str),
        mut command: Command,
        nats: &str,
        more: impl IntoIterator<Item = &'a OsStr>,
    ) {
        let state = self.place.path().join(format!("{name}.state"));
        fs::create_dir_all(&state).unwrap();
        command
            .args(["broker", "--group", group, "--name", name, "--nats", nats])
            .args(more)
            .env("HAKOBU_STATE", state)
            .env("HAKOBU_SETTINGS", "none");
        let log = self.place.path().join(format!("{name}.log"));
        self.brokers.insert(name.to_owned(), TestProcess::start(command, &log));
    }

    pub fn broker(&mut self, name: &str) -> &mut TestProcess {
        self.brokers.get_mut(name).unwrap()
    }

    /// Watches the ledger in the folder of the control plane.
    pub fn watch_leases(&self) -> LeaseWatch {
        LeaseWatch::of_file(&self.path("control/ledger.sqlite"))
    }

    /// Starts a run that goes on until [`SmallFleet::finish`].
    pub fn start_slowly(&self) -> u64 {
        self.start_within(&operations(Some(OPERATIONS)))
    }

    /// Starts a run within limits, which goes on until [`SmallFleet::finish`].
    pub fn start_within(&self, limits: &Value) -> u64 {
        let group = format!("groups/{GROUP}");
        self.control.set_limits(&group, limits);
        let run = self.control.copy(GROUP, &self.source(), &self.target());
        // The limit of a run outlasts the control plane.
        self.control.set_limits(&format!("runs/{run}"), limits);
        self.control.limit(&group, None);
        run
    }

    /// Waits until a broker has begun to copy.
    #[track_caller]
    pub fn wait_for_work(&self, run: u64, broker: &str) {
        self.control.wait_for_run(run, "work of a broker", |view| entries_of(view, broker) > 0);
    }

    /// Lets a run go on without limits to its end, and checks what it has done. Returns it.
    #[track_caller]
    pub fn finish(&self, run: u64) -> Value {
        self.control.limit(&format!("runs/{run}"), None);
        let view = self.control.finish(run, RUN_LIMIT);
        let ended = (view["ended_ms"].as_u64().unwrap(), view["started_ms"].as_u64().unwrap());
        println!("{} ms: {} {}", ended.0 - ended.1, view["units"], view["counters"]);
        assert_eq!(view["state"], "complete", "{view:#}");
        assert_eq!(view["failures"], 0, "{view:#}");
        assert_eq!(view["units"]["added"], view["units"]["committed"], "{view:#}");
        trees::assert_equal(&self.source(), &self.target());
        // The result of a unit counts once, however often the unit was begun.
        let entries = trees::paths(&self.source()).len() as u64;
        assert_eq!(count(&view, "entries_created") + entries_again(&view), entries, "{view:#}");
        view
    }

    /// Finishes a run, and checks that no more work was done again than that of leases that were lost. Returns the run.
    #[track_caller]
    pub fn finish_after(&self, run: u64, watch: &LeaseWatch, lost: &[SeenLease]) -> Value {
        let view = self.finish(run);
        watch.assert_returned_of(lost);
        let again = entries_again(&view);
        println!("{again} entries again");
        assert!(again == 0 || !watch.returned().is_empty(), "{again} entries of no unit again: {view:#}");
        view
    }
}

fn urls(nats: &NatsServer, more: &[NatsServer]) -> String {
    [nats].into_iter().chain(more).map(NatsServer::url).collect::<Vec<_>>().join(",")
}

/// Returns a counter of a run.
pub fn count(view: &Value, name: &str) -> u64 {
    view["counters"][name].as_u64().unwrap()
}

/// Returns the number of entries of a first copy that were there already when a unit came to them.
pub fn entries_again(view: &Value) -> u64 {
    ["entries_updated", "entries_unchanged", "entries_attributes_only"]
        .map(|name| count(view, name))
        .iter()
        .sum()
}

/// Returns the number of entries that a broker has found in the units that it works on.
pub fn entries_of(view: &Value, broker: &str) -> u64 {
    lanes_of(view, broker, "entries_found")
}

/// Returns a figure of the units that a broker works on.
pub fn lanes_of(view: &Value, broker: &str, figure: &str) -> u64 {
    let brokers = view["brokers"].as_array().unwrap();
    let units = brokers.iter().filter(|other| other["broker"] == broker);
    let units = units.flat_map(|broker| broker["units"].as_array().unwrap());
    units.map(|unit| unit[figure].as_u64().unwrap()).sum()
}

/// Makes a tree with links, odd names, modes and times.
fn make_tree(root: &Path) {
    fs::create_dir(root).unwrap();
    trees::make(root, DIRECTORIES, FILES);
    let moment = |number: u64| SystemTime::UNIX_EPOCH + Duration::new(number * 1_000_003, 123_456_789);
    for number in 0..DIRECTORIES as u64 {
        let folder = root.join(format!("d{}/e{number}", number % 7));
        for path in [folder.join("f3"), folder] {
            let times = FileTimes::new().set_modified(moment(number)).set_accessed(moment(number));
            File::open(path).unwrap().set_times(times).unwrap();
        }
    }
}
