//! While requests name a directory in the restricted one, it is repeatedly exchanged with a link that leads out.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_proto::control::{AgentMessage, Request, SourceAsk};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::program::place;
use crate::raw::*;

const LASTS: Duration = Duration::from_secs(4);

/// Ends the exchange, also after a failed assertion.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Exchanges two names repeatedly while `does` runs.
fn swapping(one: &Path, other: &Path, mut does: impl FnMut()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _ends = Ends(&ended);
        let began = Instant::now();
        while began.elapsed() < LASTS {
            does();
        }
    });
}

/// Creates `in/a`, which is either a directory or a link to `out`. Both contain a file with the content and time of
/// `in/source`, so that a copy only has to set its attributes.
fn ground(place: &Path) {
    let time = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1000));
    for (directory, mode) in [("in/source", 0o666), ("in/a", 0o600), ("out", 0o600)] {
        let directory = place.join(directory);
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("canary");
        fs::write(&file, "canary").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_times(time).unwrap();
    }
    symlink(place.join("out"), place.join("in/b")).unwrap();
}

#[test]
fn no_race_leads_an_agent_that_may_write_out_of_its_directory() {
    let place = place();
    ground(place.path());
    let (inside, canary) = (place.path().join("in"), place.path().join("out/canary"));
    let mut controller = Controller::of(&inside, &[]);
    let (mut done, mut refused) = (0, 0);
    swapping(&inside.join("a"), &inside.join("b"), || {
        let ran = controller.ran(copy((&inside.join("source"), "canary"), (&inside.join("a"), "canary")));
        match ran.summary.fatal {
            None => done += 1,
            Some(_) => refused += 1,
        }
        assert_eq!(fs::metadata(&canary).unwrap().mode() & 0o777, 0o600, "{done} done, {refused} refused");
    });
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}

#[test]
fn no_race_shows_an_agent_that_may_read_what_is_elsewhere() {
    let place = place();
    ground(place.path());
    let inside = place.path().join("in");
    fs::write(place.path().join("out/secret"), "secret").unwrap();
    let mut controller = Controller::of(&inside, &["--read-only"]);
    let (outside, mut seen) = (fs::metadata(place.path().join("out/canary")).unwrap().ino(), 0);
    swapping(&inside.join("a"), &inside.join("b"), || {
        let path = |name: &str| bytes(&inside.join("a").join(name)).0;
        let asks = [
            SourceAsk { path: path("canary"), contents: false },
            SourceAsk { path: path("secret"), contents: false },
        ];
        let AgentMessage::Sources(looks) = controller.ask(&Request::LookAtSources { sources: asks.to_vec() })
        else {
            panic!("no answer about sources");
        };
        if let Ok(look) = &looks[0] {
            seen += 1;
            assert!(look.ancestry.upwards.iter().all(|identity| identity.inode != outside));
        }
        assert!(looks[1].is_err(), "{:?}", looks[1]);
    });
    assert!(seen > 0);
}
