//! A history: where it happens, the trees that it begins with, and what happens then. It follows from a seed, can be written down and
//! cut down, and is played by [`play`](super::play).

use serde::{Deserialize, Serialize};

use super::generate::{self, Limits};
use super::model::Tree;
use super::mutate::{self, Mutation};
use super::place::Setting;
use super::rng::Rng;
use super::step::{self, Shape, Step, Verb};

/// A history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct History {
    /// The seed it came from.
    pub seed: u64,
    /// Where it happens.
    pub setting: Setting,
    /// The source at the beginning.
    pub source: Tree,
    /// The target at the beginning, if there is one.
    pub target: Option<Tree>,
    /// What happens.
    pub events: Vec<Event>,
}

/// One of the things that happen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The world changes the source.
    Source(Mutation),
    /// The world changes the target.
    Target(Mutation),
    /// hakobu is run.
    Run(Step),
}

/// Returns the history of a seed in a setting.
pub fn of_seed(seed: u64, setting: Setting) -> History {
    let mut rng = Rng::new(seed);
    let limits = limits(&mut rng, &setting);
    let source = generate::tree(&mut rng, limits);
    let target = rng.percent(25).then(|| {
        let mut tree = if rng.percent(50) { source.clone() } else { generate::tree(&mut rng, limits) };
        tree.nodes.truncate(rng.between(1, tree.nodes.len() as u64) as usize);
        tree
    });
    let mut events = Vec::new();
    for _ in 0..rng.between(2, 5) {
        let mut next = step::random(&mut rng, &source);
        // A history of nothing but looking would say little.
        if events.is_empty() && !next.writes() {
            next = Step::plain(Verb::Copy, Shape::Contents);
        }
        events.push(Event::Run(next));
        for _ in 0..rng.below(5) {
            let mutation = mutate::random(&mut rng, &source, limits);
            events.push(if rng.percent(65) { Event::Source(mutation) } else { Event::Target(mutation) });
        }
    }
    History { seed, setting, source, target, events }
}

fn limits(rng: &mut Rng, setting: &Setting) -> Limits {
    let size_bytes = match rng.below(24) {
        0 => 5 << 30,
        1 => 70 << 20,
        2..8 => 9 << 20,
        _ => 600 << 10,
    };
    let limits = Limits {
        entries: rng.pick(&[3, 8, 20, 60]),
        data_bytes: rng.pick(&[200_000, 1 << 20, 4 << 20, 9 << 20]),
        size_bytes,
        special: true,
    };
    setting.within(limits)
}

impl History {
    /// Returns how often hakobu is told to do something.
    pub fn steps(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Run(_))).count()
    }
}
