//! Brokers of one group that reach different locations.

use std::fs;
use std::path::Path;
use std::process::Command;

use hakobu_testkit::sshd::no_root;
use serde_json::{Value, json};

use crate::control_plane::operations;
use crate::processes::{HAKOBU, SOON, wait_until};
use crate::small_fleet::{GROUP, OPERATIONS, RUN_LIMIT, SmallFleet, entries_of};

#[test]
fn a_run_is_done_by_brokers_that_reach_it() {
    let mut fleet = SmallFleet::start(30, 0);
    fleet.add_broker_reaching("far", &[Path::new("/mnt/elsewhere"), Path::new("s3://bucket")]);
    fleet.control.wait_for_brokers(1);
    let run = fleet.start_slowly();
    let mut wait = Value::Null;
    wait_until("the run waits", SOON, || {
        wait = fleet.control.run(run)["waiting_for"].clone();
        !wait.is_null()
    });
    let (source, target) = (fleet.source(), fleet.target());
    let words =
        format!("a broker of the group {GROUP} that reaches {}/ and {}", source.display(), target.display());
    assert_eq!((&wait["kind"], &wait["message"]), (&json!("unreachable"), &json!(words)), "{wait}");
    let (code, shown) = fleet.control.fleet(&format!("run show {run}"));
    assert!(code == 0 && shown.contains(&words), "{shown}");
    let (_, shown) = fleet.control.fleet("groups list");
    assert!(shown.contains("/mnt/elsewhere, s3://bucket"), "{shown}");
    let (code, warned) = fleet.control.fleet(&format!(
        "relationships add x --group {GROUP} -- copy {}/ /mnt/elsewhere/x",
        source.display()
    ));
    let warning = format!("no broker of the group {GROUP} that is connected reaches {}/;", source.display());
    assert!(code == 0 && warned.contains(&warning), "{warned}");

    let place = fleet.place().to_owned();
    fleet.add_broker_reaching("near", &[&place]);
    fleet.add_broker("everywhere");
    for broker in ["near", "everywhere"] {
        fleet.wait_for_work(run, broker);
    }
    assert_eq!(entries_of(&fleet.control.run(run), "far"), 0);
    let brokers: Vec<Value> = fleet.control.client.list("/api/v1/brokers", &[], 10).unwrap();
    let far = brokers.iter().find(|broker| broker["name"] == "far").unwrap();
    assert_eq!((&far["state"], &far["reaches"]), (&json!("idle"), &json!(["/mnt/elsewhere", "s3://bucket"])));
    let groups: Value = fleet.control.client.get("/api/v1/groups").unwrap();
    assert_eq!(groups["items"][0]["reaches_everything"], true, "{groups}");
    fleet.finish(run);
}

#[test]
fn a_location_that_no_run_could_have_is_refused() {
    let mut fleet = SmallFleet::start(30, 0);
    fleet.add_broker_reaching("odd", &[Path::new("mnt/nas")]);
    let broker = fleet.broker("odd");
    assert_eq!(broker.wait().code(), Some(2));
    assert!(broker.log().contains("write the whole path, from /"), "{}", broker.log());
}

#[test]
fn a_broker_without_the_file_system_of_the_target_ends_the_run() {
    if no_root() {
        return;
    }
    let mut fleet = SmallFleet::start(30, 1);
    let mount_point = fleet.path("mnt");
    fs::create_dir(&mount_point).unwrap();
    let group = format!("groups/{GROUP}");
    fleet.control.set_limits(&group, &operations(Some(OPERATIONS)));
    let run = fleet.control.copy(GROUP, &fleet.source(), &mount_point.join("target"));
    fleet.wait_for_work(run, "b0");
    // It has another file system there.
    let script = format!("mount -t tmpfs none '{}' && exec \"$@\"", mount_point.display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", HAKOBU]);
    let nats = fleet.nats.url();
    fleet.add_broker_by("lost", command, &nats);
    let view = fleet.control.finish(run, RUN_LIMIT);
    assert_eq!(view["state"], "failed", "{view:#}");
    let words = view["last_error"]["message"].as_str().unwrap_or_default();
    let expected = format!(
        "opening the target {}: it is not there, and other processes of this run have written to it; the broker lost met it",
        mount_point.join("target").display()
    );
    assert_eq!(words, expected, "{view:#}");
    assert_eq!(entries_of(&view, "lost"), 0, "{view:#}");
}
