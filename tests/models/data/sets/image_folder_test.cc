#include "tessera/models/data/sets/image_folder.h"

#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tessera/models/data/loader.h"
#include "tessera/models/data/sets/packed.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using tessera::testing::Bytes;
using tessera::testing::expect_error;
using tessera::testing::load_picture;
using tessera::testing::Pixels;
using tessera::testing::TempFolder;

Bytes picture(const std::string& name) {
  static golden::File file(TESSERA_SOURCE_DIR "/tests/golden/pictures.h5");
  auto values = file.read("decode/" + name + "/file").values;
  return {values.begin(), values.end()};
}

// train: 2 bees, 3 ants (one of them rotated); val: one of each.
void write_folder(const TempFolder& folder) {
  folder.write("train/bees/b 1.JPEG", picture("jpeg_rgb"));
  folder.write("train/bees/b(2).png", picture("png_palette"));
  folder.write("train/ants/2.jpg", picture("jpeg_cmyk"));
  folder.write("train/ants/10.jpg", picture("jpeg_turned6"));
  folder.write("train/ants/1.png", picture("png_gray"));
  folder.write("val/ants/v.jpg", picture("jpeg_gray"));
  folder.write("val/bees/v.png", picture("png_rgba"));
}

Bytes read(const Dataset& data, int64_t index) {
  Bytes image(static_cast<size_t>(data.shape().bytes()));
  data.read(index, image.data());
  return image;
}

TEST(ImageFolderTest, ClassesByNameAndPicturesInOrder) {
  TempFolder folder;
  write_folder(folder);
  DataSplit data = open_image_folder(folder.path(), {.size = 16});
  EXPECT_EQ(data.train->class_names(), (std::vector<std::string>{"ants", "bees"}));
  EXPECT_EQ(data.train->count(), 5);
  EXPECT_EQ(data.test->count(), 2);
  EXPECT_EQ(data.train->shape(), (ImageShape{16, 16, 3}));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 5; ++i) labels.push_back(data.train->label(i));
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 0, 0, 1, 1}));
  // ants: 1.png, 10.jpg (rotated), 2.jpg
  EXPECT_EQ(data.train->own_shape(0), (ImageShape{21, 34, 3}));
  EXPECT_EQ(data.train->own_shape(1), (ImageShape{34, 21, 3}));
  EXPECT_TRUE(data.train->notes().empty());
  EXPECT_TRUE(data.train->has_own_sizes());
}

TEST(ImageFolderTest, ShortSideScaledAndTheMiddleCut) {
  TempFolder folder;
  write_folder(folder);
  DataSplit data = open_image_folder(folder.path(), {.size = 21});  // the short side, unscaled
  for (int64_t i = 0; i < 5; ++i) {
    SCOPED_TRACE(i);
    static const char* const kFiles[] = {"ants/1.png", "ants/10.jpg", "ants/2.jpg", "bees/b 1.JPEG",
                                         "bees/b(2).png"};
    Pixels whole = load_picture(folder.path(std::string("train/") + kFiles[i]));
    int top = (whole.height - 21) / 2, left = (whole.width - 21) / 2;
    Bytes middle;
    for (int y = 0; y < 21; ++y) {
      auto row = whole.rgb.begin() + ((top + y) * whole.width + left) * 3;
      middle.insert(middle.end(), row, row + 21 * 3);
    }
    EXPECT_EQ(read(*data.train, i), middle);
  }
}

TEST(ImageFolderTest, APartOfATurnedPictureIsThatOfTheUprightOne) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    TempFolder folder;
    std::string name = "png_turned" + std::to_string(orientation);
    folder.write("train/a/1.png", picture(name));
    folder.write("test/a/1.png", picture(name));
    DataSplit data = open_image_folder(folder.path(), {.size = 8});
    Pixels whole = load_picture(folder.path("train/a/1.png"));
    Box part{3, 5, 12, 9};
    Bytes cut(12 * 9 * 3), expected;
    data.train->read_part(0, part, {12, 9, 3}, cut.data());
    for (int y = 0; y < 12; ++y) {
      auto row = whole.rgb.begin() + ((3 + y) * whole.width + 5) * 3;
      expected.insert(expected.end(), row, row + 9 * 3);
    }
    EXPECT_EQ(cut, expected);
    expect_error<Error>(
        [&] {
          data.train->read_part(0, {0, 0, 99, 1}, {8, 8, 3}, cut.data());
        },
        {"[99x1]"});
  }
}

TEST(ImageFolderTest, AFolderOfItsOwnForValidation) {
  TempFolder folder;
  write_folder(folder);
  folder.write("test/bees/t.png", picture("png_palette"));
  for (const std::string& name : {std::string("val"), folder.path("val")}) {
    const DataSplit data = open_image_folder(folder.path(), {.size = 16, .validation = name});
    EXPECT_EQ(data.test->count(), 1);
    EXPECT_EQ(data.validation->count(), 2);
    EXPECT_EQ(data.validation->label(0), 0);
    EXPECT_EQ(data.validation->name(), "image_folder validation");
    EXPECT_TRUE(data.test->notes().empty());  // val is read
    EXPECT_EQ(list_image_folder(folder.path(), {.validation = name}).validation_count, 2);
  }
  const auto refused = [&](const std::string& name, const std::string& why) {
    expect_error<DataError>(
        [&] { open_image_folder(folder.path(), {.size = 16, .validation = name}); }, {why});
  };
  refused("vall", "data.validation: folder");
  refused("test", "is the folder of the test images");
  refused("train", "is the folder of the training images");
  fs::remove_all(folder.path("test"));
  refused("val", "which is the test set because there is no folder 'test'");
}

TEST(ImageFolderTest, StrayFilesAreSkippedAndNamed) {
  TempFolder folder;
  write_folder(folder);
  folder.write("train/ants/notes.txt", {1});
  folder.write("train/ants/image\x1b.gif", {1});
  folder.write("train/lone.jpg", picture("png_gray"));
  mkfifo(folder.path("train/pipe").c_str(), 0600);
  fs::create_directories(folder.path("train/bees/more.jpg"));
  mkfifo(folder.path("train/bees/pipe.png").c_str(), 0600);
  DataSplit data = open_image_folder(folder.path(), {.size = 16});
  EXPECT_EQ(data.train->count(), 5);
  EXPECT_EQ(
      data.train->notes(),
      (std::vector<std::string>{
          "2 files are not .jpg, .jpeg, .png or .webp and were skipped: train/ants/image?.gif, "
          "train/ants/notes.txt",
          "1 file is not in the folder of a class and was skipped: train/lone.jpg",
          "2 pipes, sockets or devices were skipped: train/bees/pipe.png, train/pipe"}));
  EXPECT_TRUE(data.test->notes().empty());
}

TEST(ImageFolderTest, ValBesideTestIsSaidToBeLeftOut) {
  TempFolder folder;
  write_folder(folder);
  folder.write("test/ants/t.png", picture("png_gray"));
  DataSplit data = open_image_folder(folder.path(), {.size = 16});
  EXPECT_EQ(data.test->count(), 1);
  EXPECT_EQ(data.test->notes(),
            (std::vector<std::string>{"val is not read because there is a test folder"}));
  EXPECT_TRUE(data.train->notes().empty());
}

TEST(ImageFolderTest, AClassStaysOneWhateverItsName) {
  TempFolder folder;
  for (const char* split : {"train", "test"})
    for (const char* name : {"/a\nb/1.png", "/c/1.png"})
      folder.write(std::string(split) + name, picture("png_gray"));
  DataSplit data = open_image_folder(folder.path(), {.size = 16});
  EXPECT_EQ(data.train->class_names(), (std::vector<std::string>{"a?b", "c"}));
  write_packed(data, folder.path("pack.h5"));
  EXPECT_EQ(open_packed(folder.path("pack.h5")).train->class_names(), data.train->class_names());
}

TEST(ImageFolderTest, DamagedPicturesAreAnErrorOrACountedSkip) {
  TempFolder folder;
  write_folder(folder);
  Bytes cut = picture("jpeg_rgb"), header = picture("png_rgb");
  cut.resize(cut.size() - 100);
  header.resize(20);
  folder.write("train/bees/cut.jpg", cut);
  folder.write("train/bees/empty.jpg", {});
  // Opening the folder finds damage of headers, reading finds the rest.
  expect_error<DataError>([&] { open_image_folder(folder.path(), {.size = 16}); },
                          {"1 damaged picture", "bees/empty.jpg", "empty", "data.damaged: skip"});
  fs::remove(folder.path("train/bees/empty.jpg"));
  DataSplit data = open_image_folder(folder.path(), {.size = 16});
  EXPECT_EQ(data.train->count(), 6);
  expect_error<DataError>([&] { read(*data.train, 5); }, {"bees/cut.jpg", "truncated"});
  read(*data.train, 4);  // the reader works again
  folder.write("train/bees/header.png", header);
  for (int readers : {1, 4}) {
    DataSplit skipped = open_image_folder(
        folder.path(), {.size = 16, .damaged = Damaged::kSkip, .readers = readers});
    EXPECT_EQ(skipped.train->count(), 5);
    ASSERT_EQ(skipped.train->notes().size(), 1u);
    std::string note = skipped.train->notes()[0];
    EXPECT_NE(note.find("2 damaged pictures were skipped"), std::string::npos) << note;
    EXPECT_NE(note.find("cut.jpg"), std::string::npos) << note;
    for (int64_t i = 0; i < 5; ++i) read(*skipped.train, i);
  }
}

TEST(ImageFolderTest, LinksStayInside) {
  TempFolder folder, outside;
  write_folder(folder);
  std::string secret = outside.write("secret.jpg", picture("jpeg_rgb"));
  fs::create_symlink(folder.path("train/bees/b 1.JPEG"), folder.path("train/ants/inside.jpg"));
  EXPECT_EQ(open_image_folder(folder.path(), {.size = 16}).train->count(), 6);
  auto refused = [&](const std::string& target, const std::string& link) {
    fs::create_symlink(target, folder.path(link));
    expect_error<DataError>([&] { open_image_folder(folder.path(), {.size = 16}); },
                            {"leads out of the folder"});
    fs::remove(folder.path(link));
  };
  refused(secret, "train/ants/outside.jpg");
  refused(outside.path(), "train/cats");
  refused("../../" + fs::path(outside.path()).filename().string() + "/../../etc", "train/etc");
  // A file replaced by a link after the folder was opened: the link is not followed.
  DataSplit data = open_image_folder(folder.path(), {.size = 16});
  fs::remove(folder.path("train/ants/1.png"));
  fs::create_symlink(secret, folder.path("train/ants/1.png"));
  EXPECT_THROW(read(*data.train, 0), DataError);
}

TEST(ImageFolderTest, LinksMayLeadOutWhereThatIsAllowed) {
  TempFolder folder, outside;
  write_folder(folder);
  outside.write("more/1.png", picture("png_gray"));
  fs::create_symlink(outside.path("more"), folder.path("train/cats"));
  fs::create_symlink(outside.path("more/1.png"), folder.path("train/ants/out.png"));
  expect_error<DataError>([&] { open_image_folder(folder.path(), {.size = 16}); },
                          {"leads out of the folder", "data.follow_links: true"});
  const DataSplit data = open_image_folder(folder.path(), {.size = 16, .follow_links = true});
  EXPECT_EQ(data.train->class_names(), (std::vector<std::string>{"ants", "bees", "cats"}));
  EXPECT_EQ(data.train->count(), 7);
  EXPECT_EQ(read(*data.train, 6), read(*data.train, 3));  // the cat and the ant are one file
  const DataSource source{
      .name = "image_folder", .root = folder.path(), .image_size = 16, .follow_links = true};
  EXPECT_EQ(data_need(source).train_count, 7);
  EXPECT_EQ(open_data(source).train->count(), 7);
}

// A layout: "train/a/1.png" is a picture, "train/a/notes.txt=" another file, "train/a/" an empty
// folder, "train/b>a" a link.
struct Layout {
  const char* name;
  std::vector<std::string> there;
  int64_t train, skipped;    // pictures; other files and folders
  const char* refusal = "";  // a part of the error
  int classes = 2;
};

void lay_out(const TempFolder& folder, const std::vector<std::string>& there) {
  for (const std::string& one : there) {
    if (const size_t link = one.find('>'); link != one.npos) {
      fs::create_directories(fs::path(folder.path(one.substr(0, link))).parent_path());
      fs::create_symlink(one.substr(link + 1), folder.path(one.substr(0, link)));
    } else if (one.back() == '/') {
      fs::create_directories(folder.path(one));
    } else if (one.back() == '=') {
      folder.write(one.substr(0, one.size() - 1), {'x'});
    } else {
      folder.write(one, picture("png_gray"));
    }
  }
}

void look(const Layout& layout, const std::vector<std::string>& beside) {
  SCOPED_TRACE(layout.name);
  TempFolder folder;
  lay_out(folder, beside);
  lay_out(folder, layout.there);
  const auto open = [&] {
    return open_image_folder(folder.path(), {.size = 16, .test_fraction = 0.3});
  };
  if (*layout.refusal != '\0') return expect_error<DataError>([&] { open(); }, {layout.refusal});
  const DataSplit data = open();
  EXPECT_EQ(data.train->classes(), layout.classes);
  EXPECT_EQ(data.train->count(), layout.train);
  EXPECT_EQ(data.train->info().skipped, layout.skipped) << data.train->describe();
  const std::string count = std::to_string(layout.skipped) + " file";
  EXPECT_EQ(data.train->describe().find(count) != std::string::npos, layout.skipped > 0)
      << data.train->describe();
  EXPECT_EQ(data.train->notes().size() == (data.cut ? 1 : 0), layout.skipped == 0);
  const ImageFolderList list = list_image_folder(folder.path(), {.test_fraction = 0.3});
  EXPECT_EQ(list.train_count, layout.train);
  EXPECT_EQ(list.test_count, data.test->count());
  EXPECT_EQ(list.classes, layout.classes);
}

TEST(ImageFolderTest, LayoutsAsPeopleHaveThem) {
  const std::vector<std::string> usual = {"train/a/1.png", "train/a/2.png", "train/b/1.png",
                                          "test/a/1.png", "test/b/1.png"};
  const std::vector<Layout> with_usual = {
      {"as documented", {}, 3, 0},
      {"Jupyter beside the classes", {"train/.ipynb_checkpoints/1-checkpoint.png"}, 3, 1},
      {"Jupyter in a class", {"train/a/.ipynb_checkpoints/1-checkpoint.png"}, 3, 1},
      {"Jupyter beside the test classes", {"test/.ipynb_checkpoints/1-checkpoint.png"}, 3, 0},
      {"Jupyter in the root", {".ipynb_checkpoints/1-checkpoint.png", "look.ipynb="}, 3, 0},
      {"macOS Finder", {"train/.DS_Store=", "train/a/.DS_Store=", ".DS_Store="}, 3, 2},
      {"macOS resource forks", {"train/a/._1.png", "train/b/._1.png=", "train/._a="}, 3, 3},
      {"macOS archive", {"__MACOSX/train/a/._1.png", "train/__MACOSX/1.png"}, 3, 1},
      {"Windows", {"train/a/Thumbs.db=", "train/desktop.ini=", "train/b/desktop.ini="}, 3, 3},
      {"Windows recycle bin", {"train/$RECYCLE.BIN/1.png"}, 3, 1},
      {"Linux", {"train/.Trash-1000/1.png", "train/a/.thumbnails/1.png"}, 3, 2},
      {"a disk's root", {"train/lost+found/"}, 3, 1},
      {"storage of Synology", {"train/@eaDir/1.png", "train/#recycle/1.png"}, 3, 2},
      {"version control", {"train/.git/1.png", "train/.gitkeep=", ".gitignore="}, 3, 2},
      {"half a copy by rsync", {"train/a/.3.png.Xy12Z", "train/b/.2.png"}, 3, 2},
      {"an editor's lock", {"train/a/.#notes>/nowhere/at/all"}, 3, 1},
      {"a hidden link out of the root", {"train/.cache>/usr"}, 3, 1},
      {"an empty class", {"train/c/", "test/c/"}, 3, 1},
      {"other pictures", {"train/a/3.gif=", "train/a/4.gif=", "train/a/5.tif="}, 3, 3},
      {"notes and labels", {"train/labels.csv=", "train/a/readme.txt=", "labels.csv="}, 3, 2},
      {"folders below a class", {"train/a/more/deep/3.png", "train/a/x.txt="}, 4, 1},
      {"a link to a folder below a class", {"train/a/more>../b"}, 3, 1},
      {"endings in capitals", {"train/a/3.PNG", "train/b/2.Png"}, 5, 0},
      {"a class linked", {"train/c>a", "test/c>a"}, 5, 0, "", 3},
      {"a picture linked", {"train/b/2.png>../a/1.png"}, 4, 0},
      {"a circle of links", {"train/a/up>..", "train/round>../train"}, 3, 2},
      {"a link that leads nowhere", {"train/a/3.png>gone.png", "train/c>gone"}, 3, 2},
      {"a link out of the root", {"train/c>/usr"}, 0, 0, "set data.follow_links: true"},
      {"a class of test alone", {"test/c/1.png"}, 0, 0, "use the same name in both, or"},
      {"a class spelled in two ways", {"test/A/1.png"}, 0, 0, "use the same name in both"},
      {"a page of errors saved as a picture", {"train/a/3.png="}, 0, 0, "data.damaged: skip"},
  };
  const std::vector<Layout> alone = {
      {"nothing", {}, 0, 0, "put the pictures into <class>/, or into"},
      {"one folder too deep", {"bees/train/a/1.png"}, 0, 0, "/bees'"},
      {"one class", {"train/a/1.png"}, 0, 0, "needs two classes"},
      {"one folder above the classes", {"pets/a/1.png", "pets/b/1.png"}, 0, 0, "/pets'"},
      {"classes below classes", {"train/a/b/1.png", "test/a/b/1.png"}, 1, 0, "", 1},
      {"classes alone", {"a/1.png", "a/2.png", "b/1.png", "b/x/2.png"}, 3, 0},
      {"parts of other names",
       {"seg_train/a/1.png", "seg_test/a/1.png"},
       0,
       0,
       "no folder 'train'"},
      {"words that begin or end so",
       {"carnival/1.png", "carnival/2.png", "festival/1.png", "trainer/1.png"},
       3,
       0,
       "",
       3},
      {"a folder called train below a class", {"cars/train/1.png", "cars/2.png", "b/1.png"}, 2, 0},
      {"linked twice", {"a/1.png", "a/2.png", "b/1.png", "b/2.png>../a/1.png"}, 0, 0, "png' twice"},
      {"train alone", {"train/a/1.png", "train/a/2.png", "train/b/1.png", "notes="}, 2, 0},
      {"a class called train", {"car/1.png", "bus/1.png", "train/1.png"}, 2, 0, "", 3},
      {"too few for a test", {"a/1.png", "b/1.png"}, 1, 0},
      {"pictures without classes", {"train/1.png", "test/1.png"}, 0, 0, "a folder of their own"},
      {"other pictures",
       {"train/a/1.gif=", "test/a/1.gif="},
       0,
       0,
       "no .jpg, .jpeg, .png or .webp"},
      {"hidden classes alone", {"train/.a/1.png", "test/.a/1.png"}, 0, 0, "a folder of their own"},
      {"test without pictures", {"train/a/1.png", "test/a/"}, 0, 0, "no pictures; put the"},
  };
  for (const Layout& layout : with_usual) look(layout, usual);
  for (const Layout& layout : alone) look(layout, {});
}

TEST(ImageFolderTest, WhatWasSkippedIsToldOnceOfAPartHeldOut) {
  TempFolder folder;
  lay_out(folder, {"train/a/1.png", "train/a/2.png", "train/b/1.png", "train/b/2.png",
                   "train/.DS_Store=", "test/a/1.png"});
  const DataSplit data = open_data({.name = "image_folder",
                                    .root = folder.path(),
                                    .image_size = 16,
                                    .validation = {.count = 2}});
  EXPECT_EQ(data.train->info().skipped, 1);
  EXPECT_EQ(data.validation->info().skipped, 0);
}

TEST(ImageFolderTest, LinksThatLeadNowhereAndEmptyFoldersAreSkippedAndNamed) {
  TempFolder folder;
  write_folder(folder);
  fs::create_symlink("nowhere", folder.path("train/ants/x.jpg"));
  fs::create_symlink("nowhere", folder.path("train/dogs"));
  fs::create_directories(folder.path("train/aphids"));
  folder.write("train/cats/notes.txt", {1});
  fs::create_directories(folder.path("val/dogs"));
  const DataSplit data = open_image_folder(folder.path(), {.size = 16});
  EXPECT_EQ(data.train->class_names(), (std::vector<std::string>{"ants", "bees"}));
  EXPECT_EQ(data.train->count(), 5);
  EXPECT_EQ(data.train->notes(),
            (std::vector<std::string>{
                "1 file is not .jpg, .jpeg, .png or .webp and was skipped: train/cats/notes.txt",
                "2 broken links were skipped: train/ants/x.jpg, train/dogs",
                "2 folders have no picture and were skipped: train/aphids, train/cats"}));
  EXPECT_EQ(data.test->notes(),
            (std::vector<std::string>{"1 folder has no picture and was skipped: val/dogs"}));
}

TEST(ImageFolderTest, AllDamagedPicturesAreNamedWhereAllAreDecoded) {
  TempFolder folder;
  write_folder(folder);
  Bytes cut = picture("jpeg_rgb");
  cut.resize(cut.size() - 100);
  for (int i = 0; i < 20; ++i) folder.write("train/bees/cut" + std::to_string(i) + ".jpg", cut);
  folder.write("val/bees/bad.jpg", cut);
  EXPECT_EQ(open_image_folder(folder.path(), {.size = 16}).train->count(), 25);
  expect_error<DataError>(
      [&] { open_image_folder(folder.path(), {.size = 16, .decode_all = true}); },
      {"21 damaged pictures", "cut0.jpg", "cut19.jpg", "val/bees/bad.jpg", "truncated"});
}

TEST(ImageFolderTest, GrayPicturesMayStayGray) {
  TempFolder folder;
  for (const char* split : {"train", "val"}) {
    folder.write(std::string(split) + "/a/1.jpg", picture("jpeg_gray"));
    folder.write(std::string(split) + "/a/2.png", picture("png_gray"));
    folder.write(std::string(split) + "/b/1.png", picture("png_gray_alpha"));
  }
  const auto open = [&](Channels channels) {
    return open_image_folder(folder.path(), {.size = 16, .channels = channels});
  };
  const auto gray = open(Channels::kGray).train, colour = open(Channels::kColour).train,
             chosen = open(Channels::kAuto).train;
  EXPECT_EQ(gray->shape(), (ImageShape{16, 16, 1}));
  EXPECT_EQ(colour->shape(), (ImageShape{16, 16, 3}));
  EXPECT_EQ(chosen->shape(), gray->shape());
  for (int64_t i = 0; i < 3; ++i) {
    const Bytes one = read(*gray, i), three = read(*colour, i);
    EXPECT_EQ(read(*chosen, i), one);
    for (size_t k = 0; k < one.size(); ++k) ASSERT_EQ(one[k], three[3 * k]) << i << ", " << k;
  }
  // The pack takes a third of the space, as does an image in memory.
  write_packed({gray, gray}, folder.path("gray.h5"));
  write_packed({colour, colour}, folder.path("colour.h5"));
  EXPECT_EQ(open_packed(folder.path("gray.h5")).train->shape(), gray->shape());
  EXPECT_LT(fs::file_size(folder.path("gray.h5")), fs::file_size(folder.path("colour.h5")));
  DataSource source{
      .name = "image_folder", .root = folder.path(), .image_size = 16, .channels = Channels::kAuto};
  EXPECT_EQ(data_need(source).shape, gray->shape());
  EXPECT_EQ(data_need(source).bytes, data_need(open_data(source)).bytes);
  // One colour picture makes all images colour. Its gray version is its brightness, rotated too.
  folder.write("train/b/2.jpg", picture("jpeg_turned6"));
  EXPECT_EQ(open(Channels::kAuto).train->shape(), colour->shape());
  // The test images alone decide if only they are opened.
  EXPECT_EQ(
      open_image_folder(folder.path(), {.size = 16, .channels = Channels::kAuto, .test_only = true})
          .test->shape(),
      colour->shape());
  const Bytes one = read(*open(Channels::kGray).train, 3),
              three = read(*open(Channels::kColour).train, 3);
  for (size_t k = 0; k < one.size(); ++k) {
    const double mix = 0.299 * three[3 * k] + 0.587 * three[3 * k + 1] + 0.114 * three[3 * k + 2];
    ASSERT_NEAR(one[k], mix, 2) << k;  // rounded before scaling and after
  }
}

// For an evaluation the classes may be in test or val alone, or in the root itself.
TEST(ImageFolderTest, TestImagesAloneNeedNoTrain) {
  TempFolder folder;
  const std::vector<std::string> ants_bees = {"ants", "bees"};
  const auto open = [&](Channels channels = Channels::kColour) {
    const DataSplit data = open_image_folder(
        folder.path(), {.size = 16, .channels = channels, .test_fraction = 0, .test_only = true});
    EXPECT_EQ(data.train, nullptr);
    const ImageFolderList list =
        list_image_folder(folder.path(), {.test_fraction = 0, .test_only = true});
    EXPECT_EQ(list.test_count, data.test->count());
    EXPECT_EQ(list.train_count, 0);
    return data.test;
  };
  for (const char* name : {"bees/1.png", "ants/1.png", "ants/2.png"})
    folder.write(name, picture("png_gray"));
  fs::create_directories(folder.path("train"));  // has no classes
  const auto root = open();
  EXPECT_EQ(root->class_names(), ants_bees);
  EXPECT_EQ(root->count(), 3);
  EXPECT_EQ(root->label(1), 0);
  EXPECT_EQ(root->label(2), 1);
  EXPECT_EQ(root->notes().size(), 1u);  // train has no picture
  EXPECT_EQ(open(Channels::kAuto)->channels(), 1);
  EXPECT_EQ(read(*root, 2).size(), 16u * 16 * 3);
  // Classes may have the names of splits.
  folder.write("test/1.png", picture("png_gray"));
  EXPECT_EQ(open()->class_names(), (std::vector<std::string>{"ants", "bees", "test"}));
  // val is used because it has classes; later test, because it has some too.
  folder.write("val/cows/1.png", picture("png_gray"));
  EXPECT_EQ(open()->class_names(), std::vector<std::string>{"cows"});
  folder.write("test/dogs/1.png", picture("png_gray"));
  EXPECT_EQ(open()->class_names(), std::vector<std::string>{"dogs"});
  // The classes of train take precedence, also for an evaluation.
  folder.write("train/dogs/1.png", picture("png_gray"));
  folder.write("train/eels/1.png", picture("png_gray"));
  EXPECT_EQ(open()->class_names(), (std::vector<std::string>{"dogs", "eels"}));
  // A training needs train.
  TempFolder other;
  other.write("test/ants/1.png", picture("png_gray"));
  expect_error<DataError>([&] { open_image_folder(other.path(), {.size = 16}); },
                          {"no folder 'train'"});
  fs::remove_all(other.path("test"));
  expect_error<DataError>([&] { open_image_folder(other.path(), {.size = 16, .test_only = true}); },
                          {"no folder 'train'", "into <class>/"});
}

TEST(ImageFolderTest, WhatIsMissingIsNamed) {
  TempFolder folder;
  auto open = [&] { open_image_folder(folder.path(), {.size = 16}); };
  expect_error<DataError>([&] { open_image_folder(folder.path("none"), {}); }, {"none"});
  expect_error<DataError>(open, {"no folder 'train'"});
  fs::create_directories(folder.path("train"));
  expect_error<DataError>(open, {"no folder 'test'"});
  fs::create_directories(folder.path("test/x"));
  expect_error<DataError>(open, {"train", "has no folders"});
  fs::create_directories(folder.path("train/a"));
  expect_error<DataError>(open, {"train", "its folders have no .jpg"});
  folder.write("train/a/1.png", picture("png_rgb"));
  expect_error<DataError>(open, {"test", "no pictures"});
  folder.write("test/x/1.png", picture("png_rgb"));
  expect_error<DataError>(open, {"test/x", "no class of this name"});
  expect_error<ConfigError>([&] { open_image_folder(folder.path(), {.size = 0}); },
                            {"data.image_size is 0"});
}

TEST(ImageFolderTest, FewerPicturesAreOfEachClassInProportion) {
  TempFolder folder;
  for (auto [name, count] : {std::pair{"a", 6}, {"b", 3}, {"c", 3}})
    for (int i = 0; i < count; ++i)
      for (const char* split : {"train/", "test/"})
        folder.write(std::string(split) + name + "/" + std::to_string(i) + ".png",
                     picture("png_gray"));
  auto labels = [](const Dataset& data) {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < data.count(); ++i) labels.push_back(data.label(i));
    return labels;
  };
  DataSource source{.name = "image_folder", .root = folder.path(), .image_size = 16};
  source.train_count = 4, source.test_count = 8;
  const DataSplit some = open_data(source);
  EXPECT_EQ(labels(*some.train), (std::vector<int64_t>{0, 1, 2, 0}));
  EXPECT_EQ(labels(*some.test), (std::vector<int64_t>{0, 1, 2, 0, 0, 1, 2, 0}));
  EXPECT_EQ(some.train->notes().back(), "4 of 12 images are used, in proportion to the classes");
  // The lists and the choice match to the byte; the decoders are known only when files are opened.
  int64_t lists = 0;
  for (const auto& split : {some.train, some.test})
    for (const MemoryItem& buffer : split->host_buffers())
      if (!buffer.name.ends_with("decoders")) lists += static_cast<int64_t>(buffer.bytes);
  const DataNeed need = data_need(source);
  EXPECT_EQ(need.bytes, lists);
  EXPECT_EQ(need.train_count, 4);
  EXPECT_EQ(need.test_count, 8);
  EXPECT_THROW(some.train->own_shape(4), Error);

  // A pack of all images gives the same subset, and so does the beginning of a pack of a subset.
  DataSource pack{.name = "hdf5", .root = folder.path("all.h5")};
  DataSource whole = source;
  whole.train_count = whole.test_count = 0;
  write_packed(open_data(whole), pack.root);
  pack.train_count = 4, pack.test_count = 8;
  EXPECT_EQ(labels(*open_data(pack).test), labels(*some.test));
  EXPECT_EQ(data_need(pack).bytes, 4 * (12 + 12) + 8 * (4 + 8));
  source.train_count = 8;
  pack.root = folder.path("some.h5");
  write_packed(open_data(source), pack.root);
  EXPECT_EQ(labels(*open_data(pack).train), labels(*some.train));
}

TEST(ImageFolderTest, ManyThreadsReadTheSameBytes) {
  TempFolder folder;
  write_folder(folder);
  DataSplit data = open_image_folder(folder.path(), {.size = 24, .readers = 2});
  std::vector<Bytes> expected;
  for (int64_t i = 0; i < 5; ++i) expected.push_back(read(*data.train, i));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 50; ++i)
        EXPECT_EQ(read(*data.train, (i + t) % 5), expected[static_cast<size_t>((i + t) % 5)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ImageFolderTest, RealPictures) {
  const char* root = std::getenv("TESSERA_TEST_DATA");
  std::string path = root == nullptr ? "" : std::string(root) + "/images/hymenoptera";
  if (!fs::exists(path + "/train")) {
    GTEST_SKIP() << "TESSERA_TEST_DATA names no folder with images/hymenoptera";
  }
  DataSplit data = open_image_folder(path, {.size = 64});
  EXPECT_EQ(data.train->class_names(), (std::vector<std::string>{"ants", "bees"}));
  ASSERT_EQ(data.train->notes().size(), 1u);
  EXPECT_NE(data.train->notes()[0].find("imageNotFound.gif"), std::string::npos);
  Loader loader(data.train, {.batch = 16, .workers = 2});
  int64_t samples = 0;
  for (int64_t i = 0; i < loader.batches(); ++i) samples += loader.next().count;
  EXPECT_EQ(samples, data.train->count());
}

}  // namespace
}  // namespace tessera
