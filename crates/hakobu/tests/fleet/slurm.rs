//! Brokers that Slurm starts with the script of `contrib`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use hakobu_testkit::free_port::free_port;
use tempfile::TempDir;

use crate::processes::{HAKOBU, SOON, TestProcess, wait_until};
use crate::small_fleet::{GROUP, SmallFleet};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/slurm/brokers.sbatch");
/// Slurm looks at what waits every half minute, and lets a job that is begun again wait.
const SLURM_LIMIT: Duration = Duration::from_secs(300);

/// A cluster of one node, which offers more processors than it has.
struct SlurmCluster {
    // In the order of their ends.
    _daemons: Vec<TestProcess>,
    place: TempDir,
}

impl SlurmCluster {
    fn start() -> Self {
        let place = TempDir::with_prefix_in("hakobu-slurm.", "/dev/shm").unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        for folder in ["state", "spool"] {
            fs::create_dir(place.path().join(folder)).unwrap();
        }
        let (controller, node) = (free_port().unwrap(), free_port().unwrap());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.split('.').next().unwrap();
        let (socket, state, spool) = (path("munge.socket"), path("state"), path("spool"));
        let (controller_pid, node_pid) = (path("slurmctld.pid"), path("slurmd.pid"));
        let configuration = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             SlurmctldPort={controller}\nSlurmdPort={node}\nAuthType=auth/munge\nAuthInfo=socket={socket}\n\
             CredType=cred/munge\nStateSaveLocation={state}\nSlurmdSpoolDir={spool}\n\
             SlurmctldPidFile={controller_pid}\nSlurmdPidFile={node_pid}\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nMpiDefault=none\nReturnToService=2\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSlurmdParameters=config_overrides\n\
             SchedulerParameters=sched_interval=2,bf_interval=2\nMinJobAge=300\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=16000 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        );
        fs::write(place.path().join("slurm.conf"), configuration).unwrap();
        fs::write(place.path().join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let mut cluster = Self { _daemons: Vec::new(), place };
        let key = cluster.place.path().join("munge.key");
        fs::write(&key, [7; 128]).unwrap();
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let (key, log, seed) =
            (key.display().to_string(), path_of(&cluster, "munged.log"), path_of(&cluster, "seed"));
        let pid = path_of(&cluster, "munged.pid");
        cluster.add(
            "munged",
            &[
                "--foreground",
                "--force",
                "--key-file",
                &key,
                "--socket",
                &socket,
                "--pid-file",
                &pid,
                "--log-file",
                &log,
                "--seed-file",
                &seed,
            ],
        );
        wait_until("the socket of munged", SOON, || fs::exists(&socket).unwrap());
        cluster.add("slurmctld", &["-D", "-i"]);
        cluster.add("slurmd", &["-D"]);
        wait_until("a node that is idle", SOON, || {
            let said = cluster.ask("sinfo", &["--noheader", "--format=%T"]);
            String::from_utf8_lossy(&said.stdout).trim() == "idle"
        });
        cluster
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap();
        command.args(arguments).env("SLURM_CONF", self.place.path().join("slurm.conf"));
        command.env("PATH", format!("{path}:/usr/sbin:/sbin")).current_dir(self.place.path());
        command
    }

    fn add(&mut self, program: &str, arguments: &[&str]) {
        let log = self.place.path().join(format!("{program}.output"));
        let daemon = TestProcess::start(self.command(program, arguments), &log);
        // The last one ends first.
        self._daemons.insert(0, daemon);
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().unwrap()
    }

    /// Asks for something that has to succeed, and returns what was said.
    #[track_caller]
    fn order(&self, program: &str, arguments: &[&str]) -> String {
        let said = self.ask(program, arguments);
        assert!(said.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    }

    /// Returns the state of a task of an array, such as `RUNNING`.
    fn state(&self, task: &str) -> String {
        let shown = self.order("scontrol", &["show", "job", task, "--oneliner"]);
        shown.split_whitespace().find_map(|word| word.strip_prefix("JobState=")).unwrap().to_owned()
    }
}

fn path_of(cluster: &SlurmCluster, name: &str) -> String {
    cluster.place.path().join(name).display().to_string()
}

/// Returns the log of a task.
fn log_of(cluster: &SlurmCluster, task: &str) -> PathBuf {
    cluster.place.path().join(format!("hakobu-broker-{task}.log"))
}

#[test]
#[ignore = "long"]
fn long_an_array_of_slurm_copies_a_tree() {
    if std::env::var_os("HAKOBU_NO_ROOT").is_some() {
        return;
    }
    let cluster = SlurmCluster::start();
    let fleet = SmallFleet::start(30, 0);
    let run = fleet.start_slowly();
    let mut sbatch = cluster.command("sbatch", &["--parsable", "--array=1-3", "--cpus-per-task=2", SCRIPT]);
    sbatch.env("HAKOBU", HAKOBU).env("HAKOBU_NATS", fleet.nats.url()).env("HAKOBU_GROUP", GROUP);
    sbatch.env("HAKOBU_SETTINGS", "none").env("HAKOBU_STATE", cluster.place.path().join("jobs"));
    let submitted = sbatch.output().unwrap();
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    let job = String::from_utf8(submitted.stdout).unwrap().trim().to_owned();
    let broker = |task: u32, restarts: u32| format!("slurm-{job}-{task}-{restarts}");
    for task in 1..=3 {
        fleet.wait_for_work(run, &broker(task, 0));
    }
    // One is asked to end, and ends well.
    let first = format!("{job}_1");
    cluster.order("scancel", &["-b", "-s", "TERM", &first]);
    wait_until("the end of a task", SOON, || cluster.state(&first) == "COMPLETED");
    let said = fs::read_to_string(log_of(&cluster, &first)).unwrap();
    assert!(said.contains("the broker has ended"), "{said}");
    // One is begun again, under a further name. Slurm takes its time for that, and the run must not end before.
    fleet.control.limit(&format!("runs/{run}"), Some(5));
    cluster.order("scontrol", &["requeue", &format!("{job}_2")]);
    wait_until("a task that was begun again", SLURM_LIMIT, || {
        fs::read_to_string(log_of(&cluster, &format!("{job}_2"))).is_ok_and(|log| log.contains(&broker(2, 1)))
    });
    fleet.finish(run);
    for task in [2, 3] {
        let task = format!("{job}_{task}");
        cluster.order("scancel", &["-b", "-s", "TERM", &task]);
        wait_until("the end of a task", SOON, || cluster.state(&task) == "COMPLETED");
    }
}
