//! Whether the database would take a write.

use super::{failure::Failure, pool::Pool, row::Head, transaction::lock};

/// Goes the way of a write up to the point where something would change. A server that is frozen, or
/// that has become a replica and only serves reads, fails before that.
pub(super) async fn probe(pool: &Pool) -> Result<Head, Failure> {
    let mut lease = pool.lease().await?;
    let connection = &mut lease.connection;
    connection.begin().await?;
    let head = lock(connection).await?.open().map_err(Failure::Lasting)?;
    let nothing = "UPDATE k3_store SET revision = revision WHERE id = 1";
    connection.plain(nothing).await?;
    connection.roll_back().await?;
    lease.release();
    Ok(head)
}
