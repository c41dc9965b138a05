use super::*;

fn spec(files: u64, directories: u64, fanout: u64) -> TreeSpec {
    TreeSpec { files, directories, fanout, ..TreeSpec::default() }
}

#[test]
fn every_file_is_in_one_directory() {
    for (files, directories) in [(0, 0), (5, 0), (7, 3), (3, 7), (100, 10)] {
        let spec = spec(files, directories, 4);
        let plan = DataPlan::new(&spec).unwrap();
        let mut next = 0;
        for directory in plan.holders() {
            let range = plan.files_in(directory);
            assert_eq!(range.start, next);
            next = range.end;
        }
        assert_eq!(next, files, "{files} in {directories}");
    }
}

#[test]
fn directories_come_after_their_parents_and_keep_the_fanout() {
    let mut spec = spec(0, 50, 3);
    spec.empty_directories = 20;
    let plan = DataPlan::new(&spec).unwrap();
    let mut children = [0; 51];
    for directory in 1..plan.directories() {
        let parent = plan.parent(directory);
        assert!(parent < directory);
        if directory <= 50 {
            children[parent as usize] += 1;
        }
        // Empty directories are siblings or children of those with files, never of each other.
        assert!(parent <= 50);
    }
    assert!(children.iter().all(|count| *count <= 3));
    let path = plan.directory_path(Path::new("root"), 50);
    assert_eq!(path.components().count(), 5);
}

#[test]
fn sizes_follow_the_distribution() {
    let mut spec = spec(10_001, 1, 1);
    spec.size = SizeDistribution::LogNormal { median_bytes: 8192, sigma: 1.5 };
    let plan = DataPlan::new(&spec).unwrap();
    let mut sizes: Vec<u64> = (0..spec.files).map(|file| plan.file_size(file)).collect();
    sizes.sort_unstable();
    let median = sizes[5000] as f64;
    assert!((median / 8192.0).ln().abs() < 0.1, "{median}");
    // One standard deviation above the median is a factor of e^1.5, at 84.13 %.
    let above = sizes[8413] as f64;
    assert!((above / 8192.0).ln() - 1.5 < 0.15, "{above}");
    assert!((above / 8192.0).ln() - 1.5 > -0.15, "{above}");
}

#[test]
fn another_seed_is_another_tree() {
    let one = spec(10, 1, 1);
    let two = TreeSpec { seed: 2, ..one.clone() };
    let (one, two) = (DataPlan::new(&one).unwrap(), DataPlan::new(&two).unwrap());
    assert_ne!(one.file_seed(0), two.file_seed(0));
    assert_ne!(one.file_times(0).last_modification, two.file_times(0).last_modification);
    // Two purposes do not share numbers either.
    assert_ne!(one.file_seed(0), one.number(NumberPurpose::FileTime, 0));
}

#[test]
fn long_names_have_nothing_below_them() {
    let mut spec = spec(0, 2000, 2);
    spec.nasty_names = true;
    let plan = DataPlan::new(&spec).unwrap();
    let mut long = 0;
    for directory in 1..plan.directories() {
        if plan.directory_name(directory).len() == 255 {
            long += 1;
            assert!(directory * 2 + 1 > spec.directories);
        }
    }
    assert!(long > 0);
}

#[test]
fn links_are_of_all_kinds() {
    let mut spec = spec(1000, 7, 7);
    spec.links = true;
    let plan = DataPlan::new(&spec).unwrap();
    let mut targets = Vec::new();
    for directory in plan.holders() {
        for link in 0..plan.links_in(directory) {
            let (name, target, _) = plan.link(directory, link);
            targets.push((name, target.to_string_lossy().into_owned()));
        }
    }
    assert!(targets.iter().any(|(_, target)| target == ".."));
    assert!(targets.iter().any(|(_, target)| target.starts_with("/nonexistent/")));
    assert!(targets.iter().any(|(_, target)| target.starts_with('f')));
    assert!(targets.iter().any(|(name, target)| name == target.as_str()));
    assert!(targets.iter().any(|(_, target)| target.len() == 1000));
}

#[test]
fn impossible_specifications_are_refused() {
    assert!(DataPlan::new(&spec(1, 1, 0)).is_err());
    assert!(DataPlan::new(&spec(u64::MAX, 1, 1)).is_err());
    for sigma in [-1.0, 9.0, f64::NAN] {
        let mut spec = spec(1, 1, 1);
        spec.size = SizeDistribution::LogNormal { median_bytes: 1, sigma };
        assert!(DataPlan::new(&spec).is_err());
    }
}
