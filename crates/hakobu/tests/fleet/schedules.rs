//! Schedules of relationships through `hakobu fleet`: what a change keeps.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::control_plane::TestControlPlane;

#[track_caller]
fn done(control: &TestControlPlane, line: &str) -> String {
    let (code, said) = control.fleet(line);
    assert_eq!(code, 0, "{line}: {said}");
    said
}

#[test]
fn a_change_of_a_schedule_keeps_what_it_does_not_name() {
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let control = TestControlPlane::start(&place.path().join("control"), &[]);
    let schedule = |line: &str| {
        let shown: Value = serde_json::from_str(&done(&control, line)).unwrap();
        shown["relationship"]["schedule"].clone()
    };
    let file = place.path().join("schedule");
    let rest = r#""time_zone":"Asia/Tokyo","blackouts":[{"from":"08:00","to":"18:00"}],"missed":"skip""#;
    fs::write(&file, format!(r#"{{"version":1,"cron":"0 3 * * *",{rest}}}"#)).unwrap();
    let file = file.display();
    let add = "relationships add home --group local --json";
    let added = schedule(&format!("{add} --schedule-file {file} -- copy /a/ /b"));
    let changed = schedule("relationships change home --schedule @hourly --json");
    assert_eq!(changed["cron"], "@hourly");
    for name in ["time_zone", "blackouts", "missed"] {
        assert_eq!((&changed[name], changed[name].is_null()), (&added[name], false), "{name}: {changed}");
    }
    let other = schedule("relationships change home --run-missed --json");
    assert_eq!((&other["missed"], &other["cron"]), (&"run_once".into(), &"@hourly".into()));
    assert_eq!(schedule("relationships change home --skip-missed --json")["missed"], "skip");
    let (code, said) = control.fleet("relationships change home --skip-missed --run-missed");
    assert!(code == 2 && said.contains("--run-missed"), "{said}");
}
