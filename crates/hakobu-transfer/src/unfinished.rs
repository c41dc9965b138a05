//! Removes what is left in a store of files whose copy was given up.

use std::sync::Arc;
use std::time::Instant;

use hakobu_agent::store_place::StorePlace;
use hakobu_core::error::Result;
use hakobu_core::event::NoObserver;
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::open_at::OpenAt;
use hakobu_core::prompts::NoPrompts;
use hakobu_core::request::CopyRequest;

use crate::opening::HostOpener;

/// Removes unfinished uploads to the targets of a request that are in stores. Returns their number. A store that
/// another host opens is asked by that host, whose login must not ask for anything.
///
/// # Errors
/// If the host cannot be reached, or a store cannot be opened or refuses.
pub fn remove_unfinished(request: &CopyRequest) -> Result<u64> {
    let agent = match request.open_at {
        OpenAt::Here | OpenAt::Target => None,
        OpenAt::Source => {
            let (prompts, observer) = (&mut NoPrompts, &NoObserver);
            let (cancel, limits) =
                (&Arc::default(), &Arc::new(LiveLimits::new(request.limits.clone(), Instant::now)));
            HostOpener { request, prompts, observer, cancel, limits, login_limit: None }.open()?.store_agent
        }
    };
    let targets = request.pairs.iter().map(|pair| &pair.1).chain([&request.target]);
    let mut removed = 0;
    for target in targets {
        if let Some(store) = target.store() {
            removed += match &agent {
                Some(agent) => agent.remove_unfinished(target.path())?,
                None => StorePlace::open(store, &request.target_store)?.remove_unfinished(target.path())?,
            };
        }
    }
    Ok(removed)
}
