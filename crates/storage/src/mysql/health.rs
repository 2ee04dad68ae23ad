//! Health check: whether the database accepts writes.

use super::{failure::MysqlFailure, pool::ConnectionPool, row::StoreHead, transaction::lock};

/// Runs a write transaction up to the point where data would change. A server that is frozen, or
/// that has become a replica and only serves reads, fails before that.
pub(super) async fn probe(pool: &ConnectionPool) -> Result<StoreHead, MysqlFailure> {
    let mut lease = pool.lease().await?;
    let connection = &mut lease.connection;
    connection.begin().await?;
    let head = lock(connection).await?.open().map_err(MysqlFailure::Permanent)?;
    let nothing = "UPDATE k3_store SET revision = revision WHERE id = 1";
    connection.plain(nothing).await?;
    connection.roll_back().await?;
    lease.release();
    Ok(head)
}
