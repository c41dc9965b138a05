//! The tables of a ledger, row by row: what an implementation provides for changes to be applied.

use hakobu_core::error::Result;

use crate::audit::AuditEntry;
use crate::broker::BrokerRecord;
use crate::failure::NumberedFailure;
use crate::ids::{Epoch, Moment, RelationshipId, RunId, TokenId, UnitId, UnitKey};
use crate::lease::UnitState;
use crate::link_name::{LinkNameRow, LinkPack, LinkRange};
use crate::names::{BrokerName, GroupName};
use crate::open_directory::{DirectoryPack, DirectoryRange, OpenDirectoryRow};
use crate::open_file::OpenFileRow;
use crate::relationship::{Relationship, RelationshipRecord};
use crate::run::{NewRun, RunRow};
use crate::token::{NewToken, TokenHash, TokenRecord};
use crate::unit::UnitRecord;

/// Tables within one transaction. New rows get numbers that no row had before.
pub(super) trait Tables {
    /// Returns the epoch of new units. It is raised when a ledger is restored from a backup, so that no lease of the lost time
    /// has an epoch of the present.
    fn first_epoch(&mut self) -> Result<Epoch>;

    fn insert_run(&mut self, run: &NewRun) -> Result<RunRow>;
    fn run(&mut self, run: RunId) -> Result<Option<RunRow>>;
    /// Returns the run of a relationship that has not ended: there is one at most.
    fn open_run_of(&mut self, relationship: RelationshipId) -> Result<Option<RunId>>;
    /// Replaces a run that exists.
    fn update_run(&mut self, run: &RunRow) -> Result<()>;
    fn insert_report(&mut self, run: RunId, report: &[u8]) -> Result<()>;
    /// Adds a run that has ended to those whose end is not told.
    fn insert_untold(&mut self, run: RunId) -> Result<()>;
    fn delete_untold(&mut self, run: RunId) -> Result<()>;

    fn insert_unit(&mut self, run: RunId, state: &UnitState, work: &[u8]) -> Result<UnitId>;
    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>>;
    fn encoded_work(&mut self, key: UnitKey) -> Result<Option<Vec<u8>>>;
    fn update_unit(&mut self, key: UnitKey, state: &UnitState) -> Result<()>;
    fn delete_unit(&mut self, key: UnitKey) -> Result<()>;
    fn insert_committed(&mut self, key: UnitKey, epoch: Epoch) -> Result<()>;
    fn committed(&mut self, key: UnitKey) -> Result<Option<Epoch>>;

    /// Adds a row, or replaces the one that is there.
    fn insert_open_directory(&mut self, run: RunId, row: &OpenDirectoryRow) -> Result<()>;
    /// Adds a row, or replaces the one that is there.
    fn insert_open_file(&mut self, run: RunId, row: &OpenFileRow) -> Result<()>;
    /// Adds a row, or replaces the one that is there.
    fn insert_link_name(&mut self, run: RunId, row: &LinkNameRow) -> Result<()>;
    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>>;
    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>>;
    fn insert_failure(&mut self, run: RunId, failure: &NumberedFailure) -> Result<()>;

    fn insert_relationship(&mut self, relationship: &Relationship, now: Moment)
    -> Result<RelationshipRecord>;
    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>>;
    fn relationship_by_name(&mut self, name: &str) -> Result<Option<RelationshipId>>;
    fn update_relationship(&mut self, record: &RelationshipRecord) -> Result<()>;
    fn delete_relationship(&mut self, id: RelationshipId) -> Result<()>;

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>>;
    /// Adds or replaces a broker.
    fn put_broker(&mut self, record: &BrokerRecord) -> Result<()>;
    fn delete_broker(&mut self, name: &BrokerName) -> Result<()>;

    /// Replaces the limits of a group, or removes them.
    fn set_group_limits(&mut self, group: &GroupName, limits: Option<&str>) -> Result<()>;

    /// Replaces the limits of an endpoint, or removes them.
    fn set_endpoint_limits(&mut self, location: &[u8], limits: Option<&str>) -> Result<()>;

    /// Adds or replaces a mark.
    fn set_mark(&mut self, name: &str, value: &str) -> Result<()>;

    fn insert_token(&mut self, token: &NewToken) -> Result<TokenId>;
    fn token(&mut self, hash: &TokenHash) -> Result<Option<TokenRecord>>;
    fn set_token_used(&mut self, id: TokenId, now: Moment) -> Result<()>;
    /// Removes a token. Returns false if there is none.
    fn delete_token(&mut self, id: TokenId) -> Result<bool>;

    fn insert_audit(&mut self, entry: &AuditEntry, refused: Option<&str>) -> Result<()>;
}
