"""damage.py FROM TO MEMBER OLD NEW: a copy of a zip archive with OLD replaced by NEW, once, in the member that ends so."""
import sys
import zipfile

source, target, member, old, new = sys.argv[1:]
with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as copy:
    for info in archive.infolist():
        content = archive.read(info)
        if info.filename.endswith(member):
            assert old.encode() in content, old
            content = content.replace(old.encode(), new.encode(), 1)
        copy.writestr(zipfile.ZipInfo(info.filename), content)
