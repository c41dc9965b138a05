//! The state of a connection to NATS as an error, with a remedy.

use hakobu_core::error::{Error, ErrorKind};

use super::link::{LinkTroubleKind, NatsLink};

const AWAY: &str = "start nats-server there, or open the way to it from this machine: it is tried again by itself, and brokers keep what \
                    they have until their leases end";
const WRONG_LOGIN: &str = "name the user and the password that the server has for this group, with --nats-user and --nats-password-file or \
                           in the file of --nats-groups; the file with the password is read again at each attempt";
const NO_RIGHTS: &str =
    "give this user the permissions of the control plane, as in contrib/nats/accounts.conf";
const NO_STREAM: &str = "start nats-server with JetStream (-js), and give it space for streams";

/// Returns the error of a connection that does not work; none if it works, or was not tried yet.
pub(super) fn link_error(link: &NatsLink) -> Option<Error> {
    let state = link.state();
    let words = state.trouble?;
    let (kind, during, hint) = match (state.is_connected, state.kind) {
        (false, LinkTroubleKind::WrongLogin) => {
            (ErrorKind::Unauthenticated, "connecting to NATS", WRONG_LOGIN)
        }
        (false, _) => (ErrorKind::ConnectionLost, "connecting to NATS", AWAY),
        (true, LinkTroubleKind::NotPermitted) => (ErrorKind::PermissionDenied, "using NATS", NO_RIGHTS),
        (true, LinkTroubleKind::NoOffers) => (ErrorKind::Unsupported, "using NATS", NO_STREAM),
        // A moment's trouble, which nothing ends.
        (true, _) => return None,
    };
    Some(Error::new(kind, during, words).at(link.place()).hint(hint))
}
