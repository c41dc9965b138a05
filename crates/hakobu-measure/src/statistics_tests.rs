use super::*;

fn row(name: &str, unit: Unit, rounds: &[f64]) -> BenchRow {
    BenchRow { name: name.to_owned(), command: None, unit, rounds: rounds.to_vec(), absent: None }
}

#[test]
fn median_of_odd_and_even_counts() {
    assert_eq!(median(&[3.0]), Some(3.0));
    assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    assert_eq!(median(&[-1.0, -3.0, -2.0]), Some(-2.0));
}

#[test]
fn nothing_and_not_a_number_have_no_median() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[1.0, f64::NAN]), None);
    assert_eq!(median(&[1.0, f64::INFINITY]), None);
    assert_eq!(Distribution::of(&[]), None);
    assert_eq!(median_absolute_deviation(&[]), None);
}

#[test]
fn quantiles_lie_between_neighbours() {
    let values = [10.0, 40.0, 20.0, 30.0, 50.0];
    assert_eq!(quantile(&values, 0.0), Some(10.0));
    assert_eq!(quantile(&values, 0.25), Some(20.0));
    assert_eq!(quantile(&values, 0.5), Some(30.0));
    assert_eq!(quantile(&values, 1.0), Some(50.0));
    let tenth = quantile(&values, 0.1).unwrap();
    assert!((tenth - 14.0).abs() < 1e-9, "{tenth}");
    assert_eq!(quantile(&values, 1.01), None);
    assert_eq!(quantile(&values, -0.01), None);
    assert_eq!(quantile(&values, f64::NAN), None);
}

#[test]
fn deviation_ignores_one_outlier() {
    assert_eq!(median_absolute_deviation(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    assert_eq!(median_absolute_deviation(&[1.0, 2.0, 3.0, 4.0, 1e9]), Some(1.0));
    assert_eq!(median_absolute_deviation(&[5.0, 5.0, 5.0]), Some(0.0));
}

#[test]
fn summary_holds_the_extremes() {
    let summary = Distribution::of(&[3.0, 1.0, 2.0, 10.0]).unwrap();
    assert_eq!(summary.count, 4);
    assert_eq!(summary.min, 1.0);
    assert_eq!(summary.max, 10.0);
    assert_eq!(summary.median, 2.5);
    assert_eq!(summary.median_absolute_deviation, 1.0);
}

#[test]
fn ratios_are_paired_by_round() {
    // The machine is four times slower in the second round. The ratio of the medians would be 3, but the tool is
    // twice as slow in every round.
    let slow = [2.0, 8.0, 6.0];
    let fast = [1.0, 4.0, 3.0];
    assert_eq!(paired_ratios(&slow, &fast), Some(vec![2.0, 2.0, 2.0]));
    assert_eq!(median_ratio(&[2.0, 9.0, 3.0], &[1.0, 3.0, 3.0]), Some(2.0));
}

#[test]
fn ratios_that_mean_nothing_are_refused() {
    assert_eq!(paired_ratios(&[1.0, 2.0], &[1.0]), None);
    assert_eq!(paired_ratios(&[1.0], &[0.0]), None);
    assert_eq!(paired_ratios(&[], &[]), None);
    assert_eq!(median_ratio(&[f64::NAN], &[1.0]), None);
}

#[test]
fn better_follows_the_unit() {
    let quick = row("quick", Unit::Seconds, &[1.0, 2.0]);
    let slow = row("slow", Unit::Seconds, &[3.0, 6.0]);
    assert_eq!(quick.times_better_than(&slow), Some(3.0));

    let fast = row("fast", Unit::BytesPerSecond, &[4.0, 8.0]);
    let lame = row("lame", Unit::BytesPerSecond, &[2.0, 4.0]);
    assert_eq!(fast.times_better_than(&lame), Some(2.0));
    assert_eq!(fast.times_better_than(&quick), None);
}

#[test]
fn a_table_survives_json_and_leaves_out_what_is_absent() {
    let table = BenchTable {
        title: "2 GiB of random data".to_owned(),
        rows: vec![row("hakobu", Unit::BytesPerSecond, &[2.5e9, 2.25e9])],
    };
    let json = serde_json::to_string(&table).unwrap();
    assert!(json.contains(r#""unit":"bytes_per_second""#), "{json}");
    assert!(!json.contains("absent") && !json.contains("command"));
    let back: BenchTable = serde_json::from_str(&json).unwrap();
    assert_eq!(back, table);
    assert!(back.row("hakobu").is_some());
    assert!(back.row("other").is_none());
}
