package penstock.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Files of this machine, as Hadoop's own class for them, but for one thing: that starts a process, chmod, for the
 * permissions of every file that it creates, which takes longer than the rows of a small micro-batch.
 */
public class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission wanted) throws IOException {
      if (wanted.getStickyBit()) {
        super.setPermission(path, wanted);
        return;
      }
      String text = wanted.getUserAction().SYMBOL + wanted.getGroupAction().SYMBOL + wanted.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
    }
  }
}
