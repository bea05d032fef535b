# The Debian package `crema`: programs, units and manual pages. `./dev package` makes it of a release build.
option(CREMA_DEBIAN "Make the Debian package: manual pages, units and configuration are installed too" OFF)
if(NOT CREMA_DEBIAN)
    return()
endif()
set(here ${PROJECT_SOURCE_DIR}/packaging)

find_program(LOWDOWN lowdown REQUIRED)
set(man ${PROJECT_BINARY_DIR}/man)
list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
add_custom_target(man ALL
    COMMAND ${here}/man.sh ${PROJECT_SOURCE_DIR} ${CREMA_DATE} ${man}
    COMMENT "Generating the manual pages of the documents"
    VERBATIM)
install(DIRECTORY ${man}/ DESTINATION share/man COMPONENT programs)

set(CREMA_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "A Python that has click")
set(shell ${PROJECT_BINARY_DIR}/shell)
add_custom_target(shell ALL
    COMMAND ${CREMA_PYTHON} ${here}/shell ${shell} ${CREMA_DATE} ${PROJECT_VERSION} ${files}
    DEPENDS ${programs}
    COMMENT "Generating the completions of shells and the manual pages of the programs"
    VERBATIM)
install(DIRECTORY ${shell}/man1 DESTINATION share/man COMPONENT programs)
install(DIRECTORY ${shell}/bash/ DESTINATION share/bash-completion/completions COMPONENT programs)
install(DIRECTORY ${shell}/zsh/ DESTINATION share/zsh/vendor-completions COMPONENT programs)

set(systemd ${here}/systemd)
install(FILES ${systemd}/crema-sink.service ${systemd}/crema-aggregator.service ${systemd}/crema-agent@.service
        DESTINATION lib/systemd/system COMPONENT programs)
install(FILES ${systemd}/sysusers.conf DESTINATION lib/sysusers.d RENAME crema.conf COMPONENT programs)
install(FILES ${systemd}/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME crema.conf COMPONENT programs)
install(FILES ${systemd}/sink.conf ${systemd}/aggregator.conf ${systemd}/agent-main.conf
        DESTINATION /etc/crema COMPONENT programs)

install(FILES ${PROJECT_SOURCE_DIR}/docs/operation/alerts.yml ${PROJECT_SOURCE_DIR}/docs/operation/dashboard.json
        DESTINATION share/crema COMPONENT programs)

set(CREMA_MAINTAINER "The crema developers <crema@users.noreply.github.com>")
string(TIMESTAMP CREMA_RFC_DATE "%a, %d %b %Y 00:00:00 +0000" UTC)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " CREMA_LICENSE " ${license}")
configure_file(${here}/debian/copyright.in debian/copyright @ONLY)
configure_file(${here}/debian/changelog.in debian/changelog @ONLY)
add_custom_target(debian_changelog ALL
    COMMAND gzip -9nkf debian/changelog
    COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md > debian/CHANGELOG.md.gz
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
set(control ${PROJECT_BINARY_DIR}/debian)
install(FILES ${control}/copyright ${control}/CHANGELOG.md.gz ${control}/changelog.gz
        DESTINATION share/doc/crema COMPONENT programs)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME crema)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL programs)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${CREMA_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME crema)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers, init-system-helpers (>= 1.52)")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_CONTROL_EXTRA
    ${here}/debian/postinst ${here}/debian/prerm ${here}/debian/postrm ${here}/debian/conffiles)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
"Agents ship what the workers of an analysis record, an aggregator follows
them and decides when a run is complete, and a sink writes one HDF5 file of
each run. What is killed on the way goes on where it was when it is started
again.")
include(CPack)
