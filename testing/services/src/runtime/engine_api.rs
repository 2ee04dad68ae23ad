//! The two requests of the Docker Engine API that tests need before they have a client.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::image::{Image, TEST_IMAGE, write_archive, write_images};
use crate::{ServiceError, supervisor::ServiceDirectory};

/// Whether the engine responds.
pub(super) fn is_up(socket: &Path) -> bool {
    get(socket, "/_ping").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// Makes the images of tests known, if they are not yet.
pub(crate) fn load_test_images(socket: &Path) -> Result<(), ServiceError> {
    bring(socket, TEST_IMAGE, write_archive)
}

/// Makes images known that are all of what `fill` puts into their root directory, if the first is not yet.
pub(super) fn load_images(
    socket: &Path,
    images: &[Image],
    fill: impl FnOnce(&Path) -> Result<(), ServiceError>,
) -> Result<(), ServiceError> {
    let first = images.first().map(|image| image.name).unwrap_or_default();
    bring(socket, first, |directory, archive| {
        write_images(directory, archive, images, fill)
    })
}

fn bring(
    socket: &Path,
    image: &str,
    write: impl FnOnce(&Path, &Path) -> Result<(), ServiceError>,
) -> Result<(), ServiceError> {
    let known =
        get(socket, &format!("/images/{image}/json")).map_err(ServiceError::io("ask for an image"))?;
    if known.starts_with("HTTP/1.1 200") {
        return Ok(());
    }
    let directory = ServiceDirectory::make("images", None)?;
    let archive = directory.path().join("images.tar");
    write(directory.path(), &archive)?;
    let answer = load(socket, &archive).map_err(ServiceError::io("load images"))?;
    if answer.starts_with("HTTP/1.1 200") && !answer.contains("\"error\"") {
        return Ok(());
    }
    Err(ServiceError::Failed {
        command: format!("POST /images/load to {}", socket.display()),
        errors: answer,
    })
}

fn get(socket: &Path, path: &str) -> io::Result<String> {
    let mut stream = connect(socket)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n"
    )?;
    answer(stream)
}

fn load(socket: &Path, archive: &Path) -> io::Result<String> {
    let mut stream = connect(socket)?;
    let mut file = File::open(archive)?;
    let length = file.metadata()?.len();
    write!(
        stream,
        "POST /images/load?quiet=1 HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\
         Content-Type: application/x-tar\r\nContent-Length: {length}\r\n\r\n"
    )?;
    io::copy(&mut file, &mut stream)?;
    answer(stream)
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_mins(2)))?;
    Ok(stream)
}

fn answer(mut stream: UnixStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
