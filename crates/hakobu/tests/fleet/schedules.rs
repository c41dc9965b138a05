//! Schedules of relationships through `hakobu fleet`: what a change keeps, and starts that wait or are left out.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::control_plane::TestControlPlane;
use crate::processes::{SOON, wait_until};

/// The time within which the next minute has begun, and everybody has heard of it.
const NEXT_MINUTE: Duration = Duration::from_secs(150);

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

#[test]
fn starts_that_wait_or_are_left_out_are_told() {
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let control = TestControlPlane::start(&place.path().join("control"), &[]);
    let many = place.path().join("many");
    fs::create_dir(&many).unwrap();
    (0..300).for_each(|number| fs::write(many.join(format!("{number}")), "content").unwrap());
    let add = |name: &str, more: &[&str], target: &str| {
        let (source, target) = (format!("{}/", many.display()), place.path().join(target));
        let start = ["relationships", "add", name, "--group", "local", "--limit-operations", "2"];
        let target = target.display().to_string();
        let (code, said) = control.fleet_by(&[&start, more, &["--", "copy", &source, &target]].concat(), &[]);
        assert_eq!(code, 0, "{said}");
    };
    add("many", &[], "both");
    done(&control, "run start many");
    add("below", &["--schedule", "* * * * *"], "both/below");
    add("skips", &["--schedule", "* * * * *", "--skip-missed"], "other");
    // The next minute may have begun it already.
    let _may_be_open = control.fleet("run start skips");
    let (waits, skips) = ("below: the start of 20", "skips: the start of 20");
    let mut shown = String::new();
    wait_until("starts that are late", NEXT_MINUTE, || {
        shown = done(&control, "relationships list");
        shown.contains(waits) && shown.contains(skips)
    });
    let line = |begin: &str| shown.lines().find(|line| line.starts_with(begin)).unwrap();
    let words = "waits for the end of run 1, which copies to this target, or to a place within or around it";
    assert!(line(waits).ends_with(words), "{shown}");
    assert!(line(skips).contains(" was left out, as run "), "{shown}");
    assert!(line(skips).ends_with(" was under way") && !shown.contains("many: the start"), "{shown}");
    let below = done(&control, "relationships show below");
    assert!(below.contains("late start  the start of 20") && below.contains(words), "{below}");
    let audit = done(&control, "audit");
    for action in ["schedule.wait", "schedule.leave_out"] {
        assert_eq!(audit.lines().filter(|line| line.contains(action)).count(), 1, "{action}: {audit}");
    }
    let (_, said) = control.fleet_by(&["relationships", "list"], &[("LANG", "ja_JP.UTF-8")]);
    for words in ["コピー中の実行 1 が終わるのを待っている", " が進行中だったため省略した"]
    {
        assert!(said.contains(words), "{said}");
    }
    // Each item is a line of its own.
    let listed = done(&control, "relationships list --json");
    let kinds = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kinds: Vec<_> = kinds.map(|item| item["delayed_start"]["kind"].clone()).collect();
    assert_eq!(kinds, [Value::from("target_in_use"), Value::Null, "run_open".into()], "{listed}");
    done(&control, "run cancel 1");
    wait_until("the start", SOON, || !done(&control, "relationships list").contains(waits));
    let below: Value = serde_json::from_str(&done(&control, "relationships show below --json")).unwrap();
    assert_eq!((&below["state"], &below["delayed_start"]), (&"running".into(), &Value::Null), "{below}");
}
