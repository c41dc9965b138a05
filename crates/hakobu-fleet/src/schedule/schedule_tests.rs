use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Moment {
    let stamp: Timestamp = text.parse().unwrap();
    Moment::new(stamp.as_millisecond().cast_unsigned()).unwrap()
}

fn utc_text(moment: Moment) -> String {
    Timestamp::from_millisecond(moment.get().cast_signed()).unwrap().to_string()
}

fn schedule(json: &str) -> Schedule {
    Schedule::parse(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn of(cron: &str, zone: &str) -> Schedule {
    schedule(&format!(r#"{{"version":1,"cron":"{cron}","time_zone":"{zone}"}}"#))
}

fn starts(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    schedule.preview(at(after), count).into_iter().map(utc_text).collect()
}

#[test]
fn a_setting_is_kept_as_written() {
    let json = r#"{"version":1,"cron":"0 22 * * *","time_zone":"Europe/Berlin","blackouts":[{"days":["mon","sun"],"from":"08:00","to":"18:00"},{"first_date":"2026-12-24","last_date":"2026-12-26"}],"missed":"skip"}"#;
    let setting: ScheduleSetting = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&setting).unwrap(), json);
    let shortest: ScheduleSetting = serde_json::from_str(r#"{"version":1,"cron":"@daily"}"#).unwrap();
    assert_eq!((shortest.time_zone.as_str(), shortest.missed), ("UTC", MissedStart::RunOnce));
    assert_eq!(
        schedule(json).words(),
        "At 22:00 (Europe/Berlin); nothing moves Mon, Sun 08:00 to 18:00, and every day from 2026-12-24 to \
         2026-12-26; missed starts are left out"
    );
}

#[test]
fn an_error_names_the_field() {
    for (json, field, words) in [
        (r#"{"version":1}"#, "", "missing field `cron`"),
        (r#"{"version":1,"cron":"@daily","x":1}"#, "", "unknown field `x`"),
        (r#"{"version":1,"cron":"@daily","blackouts":[{"form":"08:00"}]}"#, "", "unknown field `form`"),
        (r#"{"version":2,"cron":"@daily"}"#, "version", "2 is of a later version"),
        (r#"{"version":1,"cron":"0 25 * * *"}"#, "cron", "is no hour"),
        (r#"{"version":1,"cron":"0 0 30 2 *"}"#, "cron", "never comes due"),
        (r#"{"version":1,"cron":"@daily","time_zone":"Mars/Phobos"}"#, "time_zone", "Europe/Berlin"),
        (r#"{"version":1,"cron":"@daily","time_zone":"../../etc/passwd"}"#, "time_zone", "install tzdata"),
        (r#"{"version":1,"cron":"@daily","time_zone":""}"#, "time_zone", "is not in"),
        (blackout(r#""from":"08:00""#), "blackouts[0].to", "set both"),
        (blackout(r#""to":"08:00""#), "blackouts[0].from", "set both"),
        (blackout(r#""from":"08:00","to":"08:00""#), "blackouts[0].to", "leave both out"),
        (blackout(r#""from":"8:00","to":"09:00""#), "blackouts[0].from", "no time of day"),
        (blackout(r#""from":"08:00","to":"24:00""#), "blackouts[0].to", "no time of day"),
        (blackout(r#""first_date":"2026-12-24""#), "blackouts[0].last_date", "set both"),
        (dates("2026-02-30", "2026-03-01"), "blackouts[0].first_date", "no date"),
        (dates("2026-02-03", "2026-02-02"), "blackouts[0].last_date", "is before"),
        (dates("2026-02-03T10:00", "2026-02-03"), "blackouts[0].first_date", "no date"),
        (dates("2026-01-01", "2027-01-02"), "blackouts[0].last_date", "several windows"),
        (blackout(""), "blackouts", "no time at which a run could start"),
    ] {
        let error = Schedule::parse(json).expect_err(json);
        assert_eq!(error.field, field, "{json}: {error}");
        assert!(error.words.contains(words), "{json}: {error}");
    }
    assert!(Schedule::parse(dates("2026-01-01", "2027-01-01")).is_ok());
    let windows = |count: usize| {
        let windows = vec![r#"{"from":"08:00","to":"09:00"}"#; count].join(",");
        Schedule::parse(&format!(r#"{{"version":1,"cron":"@daily","blackouts":[{windows}]}}"#))
    };
    assert!(windows(BLACKOUTS_MAX).is_ok());
    assert_eq!(windows(BLACKOUTS_MAX + 1).unwrap_err().field, "blackouts");
}

fn blackout(fields: &str) -> &'static str {
    format!(r#"{{"version":1,"cron":"@daily","blackouts":[{{{fields}}}]}}"#).leak()
}

fn dates(first: &str, last: &str) -> &'static str {
    blackout(&format!(r#""first_date":"{first}","last_date":"{last}""#))
}

#[test]
fn a_fixed_time_falls_once_in_the_nights_when_the_clocks_change() {
    // 2027-03-28 in Berlin: 02:00 becomes 03:00 (01:00Z). 2027-10-31: 03:00 becomes 02:00 (01:00Z).
    let berlin = of("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        starts(&berlin, "2027-03-27T00:00:00Z", 3),
        ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]
    );
    assert_eq!(
        starts(&berlin, "2027-10-30T00:00:00Z", 3),
        ["2027-10-30T00:30:00Z", "2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]
    );
    // 2027-03-14 in New York: 02:00 becomes 03:00 (07:00Z). 2027-11-07: 02:00 becomes 01:00 (06:00Z).
    let new_york = of("15 2 * * *", "America/New_York");
    assert_eq!(
        starts(&new_york, "2027-03-13T00:00:00Z", 3),
        ["2027-03-13T07:15:00Z", "2027-03-14T07:00:00Z", "2027-03-15T06:15:00Z"]
    );
    let new_york = of("30 1 * * *", "America/New_York");
    assert_eq!(
        starts(&new_york, "2027-11-07T00:00:00Z", 2),
        ["2027-11-07T05:30:00Z", "2027-11-08T06:30:00Z"]
    );
}

#[test]
fn a_line_with_steps_counts_real_time_in_the_nights_when_the_clocks_change() {
    let berlin = of("*/30 * * * *", "Europe/Berlin");
    for after in ["2027-03-28T00:15:00Z", "2027-10-30T23:45:00Z"] {
        let found = berlin.preview(at(after), 8);
        assert_eq!(found.len(), 8);
        assert!(found.windows(2).all(|pair| pair[1].get() - pair[0].get() == 1_800_000), "{found:?}");
    }
}

#[test]
fn a_start_is_decided_once_in_the_nights_when_the_clocks_change() {
    for (cron, zone, day, count) in [
        ("30 2 * * *", "Europe/Berlin", "2027-03-28T00:00:00Z", 1),
        ("30 2 * * *", "Europe/Berlin", "2027-10-30T22:00:00Z", 1),
        ("*/30 * * * *", "Europe/Berlin", "2027-10-30T22:00:00Z", 49),
        ("*/30 * * * *", "Europe/Berlin", "2027-03-27T23:00:00Z", 45),
        ("30 1 * * *", "America/New_York", "2027-11-07T04:00:00Z", 1),
        ("30 2 * * *", "America/New_York", "2027-03-14T05:00:00Z", 1),
    ] {
        let schedule = of(cron, zone);
        let local = Timestamp::from_millisecond(at(day).get().cast_signed()).unwrap();
        let local = local.to_zoned(jiff::tz::TimeZone::get(zone).unwrap());
        let end = local.tomorrow().unwrap().start_of_day().unwrap().timestamp().as_millisecond();
        let (mut dealt_with, mut begun) = (at(day), 0);
        for second in (at(day).get() + 20_000..end.cast_unsigned()).step_by(20_000) {
            let now = Moment::new(second).unwrap();
            if let StartDecision::Start(planned) = schedule.decide(dealt_with, now, false) {
                assert!(now.get() - planned.get() < 20_000, "{cron} {zone}: {}", utc_text(now));
                (dealt_with, begun) = (now, begun + 1);
            }
        }
        assert_eq!(begun, count, "{cron} {zone} {day}");
    }
}

#[test]
fn windows_pass_midnight_and_join() {
    // Friday 22:00 to Saturday 06:00, and the whole Saturday.
    let joined = schedule(
        r#"{"version":1,"cron":"0 * * * *","blackouts":[{"days":["fri"],"from":"22:00","to":"06:00"},{"days":["sat"]}],"missed":"skip"}"#,
    );
    // 2027-01-01 is a Friday.
    let phase = |moment: &str| joined.blackout_at(at(moment));
    let is = |is_blackout, until| BlackoutPhase { is_blackout, until: Some(at(until)) };
    assert_eq!(phase("2027-01-01T21:59:59Z"), is(false, "2027-01-01T22:00:00Z"));
    assert_eq!(phase("2027-01-01T22:00:00Z"), is(true, "2027-01-03T00:00:00Z"));
    assert_eq!(phase("2027-01-02T05:59:59Z"), is(true, "2027-01-03T00:00:00Z"));
    assert_eq!(phase("2027-01-02T23:59:59.999Z"), is(true, "2027-01-03T00:00:00Z"));
    assert_eq!(phase("2027-01-03T00:00:00Z"), is(false, "2027-01-08T22:00:00Z"));
    assert_eq!(
        starts(&joined, "2027-01-01T20:30:00Z", 3),
        ["2027-01-01T21:00:00Z", "2027-01-03T00:00:00Z", "2027-01-03T01:00:00Z"]
    );
    let none = of("@daily", "UTC").blackout_at(at("2027-01-01T00:00:00Z"));
    assert_eq!(none, BlackoutPhase { is_blackout: false, until: None });
    let dated = Schedule::parse(dates("2026-12-24", "2026-12-26")).unwrap();
    assert_eq!(dated.blackout_at(at("2026-01-01T00:00:00Z")), is(false, "2026-12-24T00:00:00Z"));
    assert_eq!(dated.blackout_at(at("2026-12-25T10:00:00Z")), is(true, "2026-12-27T00:00:00Z"));
    assert_eq!(dated.blackout_at(at("2026-12-27T00:00:00Z")).until, None);
}

#[test]
fn windows_follow_the_local_time_in_the_nights_when_the_clocks_change() {
    let night = schedule(
        r#"{"version":1,"cron":"@daily","time_zone":"Europe/Berlin","blackouts":[{"from":"02:30","to":"02:45"}]}"#,
    );
    let until = |moment: &str| night.blackout_at(at(moment)).until.map(utc_text).unwrap();
    // In the gap the window is empty, and the next one is that of the day after.
    assert!(!night.blackout_at(at("2027-03-28T01:00:00Z")).is_blackout);
    // In the overlap it lasts from the first 02:30 to the second 02:45.
    assert_eq!(until("2027-10-31T00:00:00Z"), "2027-10-31T00:30:00Z");
    assert!(night.blackout_at(at("2027-10-31T01:00:00Z")).is_blackout);
    assert_eq!(until("2027-10-31T00:30:00Z"), "2027-10-31T01:45:00Z");
    let over = schedule(
        r#"{"version":1,"cron":"@daily","time_zone":"Europe/Berlin","blackouts":[{"from":"01:30","to":"02:30"}]}"#,
    );
    let phase = over.blackout_at(at("2027-03-28T00:45:00Z"));
    assert_eq!(
        (phase.is_blackout, phase.until.map(utc_text).unwrap().as_str()),
        (true, "2027-03-28T01:00:00Z")
    );
}

#[test]
fn a_start_within_a_blackout_is_missed() {
    let by = |missed: &str| {
        schedule(&format!(
            r#"{{"version":1,"cron":"0 9 * * *","blackouts":[{{"days":["mon"],"from":"08:00","to":"18:00"}}],"missed":"{missed}"}}"#
        ))
    };
    // 2027-01-04 is a Monday.
    let before = "2027-01-03T12:00:00Z";
    assert_eq!(starts(&by("run_once"), before, 2), ["2027-01-04T18:00:00Z", "2027-01-05T09:00:00Z"]);
    assert_eq!(starts(&by("skip"), before, 1), ["2027-01-05T09:00:00Z"]);
    let planned = at("2027-01-04T09:00:00Z");
    let decide = |missed: &str, now: &str| by(missed).decide(at(before), at(now), false);
    assert_eq!(
        decide("run_once", "2027-01-04T08:59:59Z"),
        StartDecision::Wait(Some(at("2027-01-04T09:00:00Z")))
    );
    assert_eq!(
        decide("run_once", "2027-01-04T09:00:00Z"),
        StartDecision::Delay(planned, Some(at("2027-01-04T18:00:00Z")))
    );
    assert_eq!(decide("run_once", "2027-01-04T18:00:00Z"), StartDecision::Start(planned));
    assert_eq!(decide("skip", "2027-01-04T09:00:00Z"), StartDecision::LeaveOut(planned));
}

#[test]
fn runs_of_a_schedule_never_overlap() {
    let by = |missed| schedule(&format!(r#"{{"version":1,"cron":"0 * * * *","missed":"{missed}"}}"#));
    let (nine, ten) = (at("2027-01-04T09:00:00Z"), at("2027-01-04T10:00:00Z"));
    let later = at("2027-01-04T10:20:00Z");
    assert_eq!(by("run_once").decide(nine, ten, true), StartDecision::Delay(ten, None));
    assert_eq!(by("run_once").decide(nine, later, false), StartDecision::Start(ten));
    assert_eq!(by("skip").decide(nine, ten, true), StartDecision::LeaveOut(ten));
    let next = StartDecision::Wait(Some(at("2027-01-04T11:00:00Z")));
    assert_eq!(by("skip").decide(ten, later, true), next);
    // A run that began by hand before the start delays nothing that is not due.
    assert_eq!(by("run_once").decide(later, at("2027-01-04T10:30:00Z"), true), next);
}

#[test]
fn a_control_plane_that_was_away_starts_one_run_or_none() {
    let by = |missed| schedule(&format!(r#"{{"version":1,"cron":"*/10 * * * *","missed":"{missed}"}}"#));
    let (last_year, back) = (at("2026-01-01T00:00:00Z"), at("2027-01-04T10:05:00Z"));
    let planned = at("2027-01-04T10:00:00Z");
    assert_eq!(by("run_once").decide(last_year, back, false), StartDecision::Start(planned));
    assert_eq!(by("skip").decide(last_year, back, false), StartDecision::LeaveOut(planned));
    // A restart within the grace misses nothing.
    let soon = planned.plus_ms(START_GRACE_MS);
    assert_eq!(by("skip").decide(last_year, soon, false), StartDecision::Start(planned));
    assert_eq!(by("skip").decide(last_year, soon.plus_ms(1), false), StartDecision::LeaveOut(planned));
    // A clock that was set back starts nothing twice.
    assert!(matches!(by("run_once").decide(back, planned, false), StartDecision::Wait(Some(_))));
}

#[test]
fn a_blackout_begins_and_ends() {
    let schedule = Schedule::parse(blackout(r#""from":"08:00","to":"18:00""#)).unwrap();
    let end = at("2027-01-04T18:00:00Z");
    let during = schedule.blackout_at(at("2027-01-04T12:00:00Z"));
    assert_eq!(during, BlackoutPhase { is_blackout: true, until: Some(end) });
    assert!(!schedule.blackout_at(end).is_blackout);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn starts_come_in_order_and_outside_of_blackouts(
        minute in 0u8..60, step in 1u8..24, from in 0u8..24, to in 0u8..24, day in 0usize..7,
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"]),
        skip in any::<bool>(), after in 1_700_000_000_000u64..1_900_000_000_000,
    ) {
        prop_assume!(from != to);
        let name = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][day];
        let missed = if skip { "skip" } else { "run_once" };
        let schedule = schedule(&format!(
            r#"{{"version":1,"cron":"{minute} */{step} * * *","time_zone":"{zone}","blackouts":[{{"days":["{name}"],"from":"{from:02}:00","to":"{to:02}:00"}}],"missed":"{missed}"}}"#
        ));
        let after = Moment::new(after).unwrap();
        let mut before = after;
        for start in schedule.preview(after, 20) {
            prop_assert!(start > before);
            prop_assert!(!schedule.blackout_at(start).is_blackout);
            // The decision knows the moments that the preview shows.
            let decision = schedule.decide(before, start, false);
            prop_assert!(matches!(decision, StartDecision::Start(planned) if planned > before && planned <= start), "{decision:?}");
            let phase = schedule.blackout_at(before);
            if let Some(until) = phase.until {
                prop_assert!(until > before);
                prop_assert_ne!(schedule.blackout_at(until).is_blackout, phase.is_blackout);
            }
            before = start;
        }
    }
}
